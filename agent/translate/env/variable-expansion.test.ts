import { expect, test } from "bun:test";
import { createPortion } from "./variable-expansion.ts";

const portion = () => createPortion("a", "CreateContainerConfigError");
const tooLarge = expect.objectContaining({
  reason: "CreateContainerConfigError",
  message: "container a: command, args and env are larger than 6291456 bytes together, which no process can be given",
});

const expansions: readonly [sentence: string, text: string, result: string][] = [
  ["a known name is replaced", "x-$(A)-y", "x-1-y"],
  ["two names side by side are both replaced", "$(A)$(B)", "12"],
  ["an unknown name stays as it is", "$(NONE)", "$(NONE)"],
  ["a doubled dollar is one dollar, and what follows is no reference", "$$(A)", "$(A)"],
  ["four dollars are two", "$$$$", "$$"],
  ["three dollars before a name are a dollar and its value", "$$$(A)", "$1"],
  ["a reference that never ends stays", "$(A", "$(A"],
  ["a lone dollar at the end stays", "a$", "a$"],
  ["a shell's variable is no reference", "$A-$", "$A-$"],
  ["empty parentheses name nothing", "$()", "$()"],
  ["a value is not expanded once more", "$(C)", "$(A)"],
  ["the name ends at the first closing parenthesis", "$($(A))", "$($(A))"],
];
for (const [sentence, text, result] of expansions)
  test(`expansion: ${sentence}`, () => {
    const known = new Map(Object.entries({ A: "1", B: "2", C: "$(A)" }));
    expect(portion().expand(text, known)).toBe(result);
  });

test("what grows beyond all a process can be given is refused before it is put together", () => {
  const known = new Map([["A", "x".repeat(1 << 20)]]);
  expect(portion().expand("$(A)".repeat(5), known)).toHaveLength(5 << 20);
  expect(() => portion().expand("$(A)".repeat(1 << 18), known)).toThrow(tooLarge);
});

test("all parts of one process count together", () => {
  const { take, expand } = portion();
  for (let n = 0; n < 5; n++) take("x".repeat(1 << 20));
  expect(() => expand("$(A)", new Map([["A", "x".repeat(1 << 20)]]))).toThrow(tooLarge);
});

test("what counts is bytes: a text of letters that take three of them has a third of the room", () => {
  const fits = "\u20ac".repeat(2 << 20);
  expect(portion().take(fits)).toBe(fits);
  expect(() => portion().take(`${fits}x`)).toThrow(tooLarge);
});

/** Whoever looks for the end of each of a million references needs minutes; a busy machine may take seconds for what else there is to do. */
const LIMIT_MS = 20_000;
test(
  "a text that is to keep us busy does not",
  () => {
    const began = performance.now();
    for (const text of ["$(".repeat(1_000_000), `${"$(".repeat(1_000_000)})`]) portion().expand(text, new Map());
    expect(performance.now() - began).toBeLessThan(LIMIT_MS);
  },
  3 * LIMIT_MS,
);
