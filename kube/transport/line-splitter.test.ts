import { expect, test } from "bun:test";
import { createLineSplitter } from "./line-splitter.ts";

function split(chunks: readonly Uint8Array[], longest = 100): { lines: readonly string[]; rest: string } {
  const lines: string[] = [];
  const splitter = createLineSplitter(
    longest,
    (line) => lines.push(line),
    () => {
      throw new Error("too long");
    },
  );
  for (const chunk of chunks) splitter.push(chunk);
  return { lines, rest: splitter.rest() };
}

test("lines are the same wherever the chunks end", () => {
  const bytes = Buffer.from("ä☃\n\n🚢 x\nend");
  for (let first = 0; first <= bytes.length; first += 1)
    for (let second = first; second <= bytes.length; second += 1) {
      const chunks = [bytes.subarray(0, first), bytes.subarray(first, second), bytes.subarray(second)];
      expect(split(chunks)).toEqual({ lines: ["ä☃", "", "🚢 x"], rest: "end" });
    }
});

test("a line may have as many bytes as allowed, and not one more", () => {
  expect(split([Buffer.from("12345\n67890\n")], 5).lines).toEqual(["12345", "67890"]);
  expect(() => split([Buffer.from("123"), Buffer.from("456")], 5)).toThrow("too long");
  expect(() => split([Buffer.from("123456\n")], 5)).toThrow("too long");
});
