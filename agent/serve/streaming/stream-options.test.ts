import { expect, test } from "bun:test";
import { parsePorts, parseStreams } from "./stream-options.ts";

const outcomeOf = (parse: (query: URLSearchParams) => unknown, query: string) => {
  try {
    return parse(new URLSearchParams(query));
  } catch (error) {
    return error;
  }
};
const none = { stdin: false, stdout: false, stderr: false, tty: false };

const streams: readonly (readonly [query: string, expected: object])[] = [
  ["input=1&output=1&error=1", { ...none, stdin: true, stdout: true, stderr: true }],
  ["output=1&error=1&tty=1", { ...none, stdout: true, tty: true }],
  ["output=1&output=0", { ...none, stdout: true }],
  ["output=true&input=1", { ...none, stdin: true }],
  ["", { status: 400, message: "you must specify at least 1 of stdin, stdout, stderr" }],
  ["error=1&tty=1", { status: 400, message: "you must specify at least 1 of stdin, stdout, stderr" }],
  ["stdin=1&stdout=1", { status: 400, message: "you must specify at least 1 of stdin, stdout, stderr" }],
];
for (const [query, expected] of streams)
  test(`the streams of ?${query}`, () => {
    expect(outcomeOf(parseStreams, query)).toMatchObject(expected);
  });

const ports: readonly (readonly [query: string, expected: readonly number[] | string])[] = [
  ["port=80", [80]],
  ["port=80,443&port=65535", [80, 443, 65_535]],
  ["", 'query parameter "port" is required'],
  ["port=", 'query parameter "port" cannot be empty'],
  ["port=0", 'port "0" must be > 0'],
  ["port=80,x", 'unable to parse "80,x" as a port: strconv.ParseUint: parsing "x": invalid syntax'],
  ["port=65536", 'unable to parse "65536" as a port: strconv.ParseUint: parsing "65536": value out of range'],
  ["port=-1", 'unable to parse "-1" as a port: strconv.ParseUint: parsing "-1": invalid syntax'],
];
for (const [query, expected] of ports)
  test(`the ports of ?${query}`, () => {
    const outcome = outcomeOf(parsePorts, query);
    if (typeof expected === "string") expect(outcome).toMatchObject({ status: 400, message: expected });
    else expect(outcome).toEqual(expected);
  });
