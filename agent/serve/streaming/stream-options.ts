import type { ProcessStreams } from "../../../cri/runtime.ts";
import { ApiError } from "../api/api-error.ts";

/**
 * The streams that a request of exec or attach asks for: `input`, `output`, `error` and `tty`, each by `1`. Rule: NewOptions
 * of the streaming library, by which a terminal has no stderr of its own. Throws `ApiError` 400 if none is asked for.
 */
export function parseStreams(query: URLSearchParams): ProcessStreams {
  const isSet = (name: string) => query.get(name) === "1";
  const tty = isSet("tty");
  const streams = { stdin: isSet("input"), stdout: isSet("output"), stderr: isSet("error") && !tty, tty };
  if (!streams.stdin && !streams.stdout && !streams.stderr)
    throw new ApiError(400, "you must specify at least 1 of stdin, stdout, stderr");
  return streams;
}

/**
 * The ports that a WebSocket of port-forward names, with `port`: repeated, or separated by commas. Rule: NewV4Options. Throws
 * `ApiError` 400 for none, or one that is no port.
 */
export function parsePorts(query: URLSearchParams): readonly number[] {
  const texts = query.getAll("port");
  if (texts.length === 0) throw new ApiError(400, `query parameter "port" is required`);
  return texts.flatMap((text) => {
    if (text === "") throw new ApiError(400, `query parameter "port" cannot be empty`);
    return text.split(",").map((port) => parsePort(port, text));
  });
}

function parsePort(port: string, text: string): number {
  const refuse = (reason: string) =>
    new ApiError(
      400,
      `unable to parse ${JSON.stringify(text)} as a port: strconv.ParseUint: parsing ${JSON.stringify(port)}: ${reason}`,
    );
  if (!/^\d+$/.test(port)) throw refuse("invalid syntax");
  if (Number(port) > 65_535) throw refuse("value out of range");
  if (Number(port) === 0) throw new ApiError(400, `port ${JSON.stringify(text)} must be > 0`);
  return Number(port);
}
