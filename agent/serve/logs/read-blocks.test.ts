import { expect, test } from "bun:test";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { createReadBlocks, type ReadBlock } from "./read-blocks.ts";

const { signal } = new AbortController();

function startReaders(count: number) {
  const clock = new FakeClock();
  const blocks = createReadBlocks(clock);
  const ends: (() => void)[] = [];
  const used = new Set<ReadBlock>();
  const work = (block: ReadBlock) => {
    used.add(block);
    return new Promise<void>((resolve) => ends.push(resolve));
  };
  const reads = Array.from({ length: count }, () => blocks.use(work, signal));
  return { clock, blocks, ends, used, reads };
}

test("at most eight logs are read at once; the others follow", async () => {
  const { ends, used, reads } = startReaders(100);
  await settlePromises();
  expect([ends.length, used.size]).toEqual([8, 8]);
  for (let read = 0; read < 100; read++) {
    ends[read]?.();
    await settlePromises();
    expect(ends.length).toBe(Math.min(100, read + 9));
  }
  await Promise.all(reads);
});

test("reads that hang let others read after ten seconds", async () => {
  const { clock, ends } = startReaders(9);
  await clock.advance(9_999);
  expect(ends.length).toBe(8);
  await clock.advance(1);
  expect(ends.length).toBe(9);
});

test("a client that goes away does not wait", async () => {
  const { blocks } = startReaders(8);
  const leaving = new AbortController();
  const read = blocks.use(async () => 1, leaving.signal);
  leaving.abort(new Error("gone"));
  await expect(read).rejects.toThrow("gone");
});
