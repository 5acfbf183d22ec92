import exported from "./index.cjs";

export const { contain, program } = exported;
