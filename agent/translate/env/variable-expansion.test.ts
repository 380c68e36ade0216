import { expect, test } from "bun:test";
import { createBoundedExpander, expandWithAll } from "./variable-expansion.ts";

const expander = () => createBoundedExpander("a", "CreateContainerConfigError");
const tooLarge = expect.objectContaining({
  reason: "CreateContainerConfigError",
  message: "container a: command, args and env are larger than 6291456 bytes together, which no process can be given",
});

const expansions: readonly [sentence: string, text: string, result: string][] = [
  ["a known name is replaced", "x-$(A)-y", "x-1-y"],
  ["two names side by side are both replaced", "$(A)$(B)", "12"],
  ["an unknown name stays as it is", "$(NONE)", "$(NONE)"],
  ["a doubled dollar is an escaped dollar", "$$(A)", "$(A)"],
  ["four dollars become two", "$$$$", "$$"],
  ["three dollars before a name become a dollar and its value", "$$$(A)", "$1"],
  ["an unclosed reference is kept", "$(A", "$(A"],
  ["a dollar at the end is kept", "a$", "a$"],
  ["a shell variable is kept", "$A-$", "$A-$"],
  ["empty parentheses are kept", "$()", "$()"],
  ["a value is not expanded again", "$(C)", "$(A)"],
  ["the name ends at the first closing parenthesis", "$($(A))", "$($(A))"],
];
for (const [sentence, text, result] of expansions)
  test(`expansion: ${sentence}`, () => {
    const known = new Map(Object.entries({ A: "1", B: "2", C: "$(A)" }));
    expect(expander().expand(text, known)).toBe(result);
  });

test("the expander rejects exponential growth before it builds the text", () => {
  const known = new Map([["A", "x".repeat(1 << 20)]]);
  expect(expander().expand("$(A)".repeat(5), known)).toHaveLength(5 << 20);
  expect(() => expander().expand("$(A)".repeat(1 << 18), known)).toThrow(tooLarge);
});

test("the expander counts all texts of one process together", () => {
  const { add, expand } = expander();
  for (let n = 0; n < 5; n++) add("x".repeat(1 << 20));
  expect(() => expand("$(A)", new Map([["A", "x".repeat(1 << 20)]]))).toThrow(tooLarge);
});

test("the expander counts bytes of UTF-8, not characters", () => {
  const fits = "\u20ac".repeat(2 << 20);
  expect(expander().add(fits)).toBe(fits);
  expect(() => expander().add(`${fits}x`)).toThrow(tooLarge);
});

/** A quadratic search for closing parentheses takes minutes; a busy machine may take seconds for a linear one. */
const LIMIT_MS = 20_000;
test(
  "expansion takes linear time for hostile input",
  () => {
    const began = performance.now();
    for (const text of ["$(".repeat(1_000_000), `${"$(".repeat(1_000_000)})`]) expander().expand(text, new Map());
    expect(performance.now() - began).toBeLessThan(LIMIT_MS);
  },
  3 * LIMIT_MS,
);

test("a text that needs all its variables is an error that names those without a value, each once and sorted", () => {
  const environment = new Map([
    ["A", "1"],
    ["EMPTY", ""],
  ]);
  expect(expandWithAll("$(A)/$$(NONE)/$(A", environment)).toBe("1/$(NONE)/$(A");
  expect(() => expandWithAll("$(Z)$(EMPTY)$(A)$(Z)", environment)).toThrow(
    expect.objectContaining({ reason: "CreateContainerConfigError", message: "missing value for EMPTY, Z" }),
  );
});
