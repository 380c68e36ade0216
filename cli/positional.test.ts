import { expect, test } from "bun:test";
import { standaloneFlag } from "../agent/config/flags/flag-table.ts";
import { splitPositionals } from "./positional.ts";

const flags = [
  { ...standaloneFlag("container", "string", "the container"), shorthand: "c" },
  { ...standaloneFlag("stdin", "bool", "pass stdin on"), shorthand: "i" },
  { ...standaloneFlag("tty", "bool", "a terminal"), shorthand: "t" },
];

const rows: readonly (readonly [args: string, positionals: string, flags: string, afterDashes: string | undefined])[] =
  [
    ["web -- true", "web", "", "true"],
    ["web -it -c app -- sh -c x", "web", "-it -c app", "sh -c x"],
    ["-c app web", "web", "-c app", undefined],
    ["-itc app web --", "web", "-itc app", ""],
    ["-capp web", "web", "-capp", undefined],
    ["-c=app web", "web", "-c=app", undefined],
    ["--container app web", "web", "--container app", undefined],
    ["--container=app web", "web", "--container=app", undefined],
    ["--stdin web", "web", "--stdin", undefined],
    ["--fly web", "web", "--fly", undefined],
    ["-c -- web", "", "-c", "web"],
    ["web db", "web db", "", undefined],
    ["-", "-", "", undefined],
  ];

for (const [args, positionals, expectedFlags, afterDashes] of rows)
  test(`the arguments ${args}`, () => {
    const split = splitPositionals(args.split(" "), flags);
    expect({
      positionals: split.positionals.join(" "),
      flags: split.flags.join(" "),
      afterDashes: split.afterDashes?.join(" "),
    }).toEqual({ positionals, flags: expectedFlags, afterDashes });
  });
