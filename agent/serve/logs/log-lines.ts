import { createCriLogLines, type LogLines, type LogLinesOptions } from "./cri-log-lines.ts";
import { createDockerLogLines } from "./docker-log-lines.ts";

const OPENING_BRACE = "{".charCodeAt(0);

/** Reads a log in the format of its first line, CRI's or Docker's. Rule: cri-client getParseFunc. */
export function createLogLines(options: LogLinesOptions): LogLines {
  let lines = createCriLogLines(options);
  let isEmpty = true;
  return {
    convert(input, block) {
      if (isEmpty && input[0] === OPENING_BRACE) lines = createDockerLogLines(options);
      isEmpty &&= input.length === 0;
      return lines.convert(input, block);
    },
    isDone: () => lines.isDone(),
    startFile: () => lines.startFile(),
    end: () => lines.end(),
  };
}
