import exported from "./index.cjs";

export const { NotStarted, Report, Unproven, contain, program } = exported;
