import { expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readProcessFigures } from "./process-figures.ts";

test("the figures are read from the kernel's files, also of a process whose name has spaces and parentheses", async () => {
  const proc = await mkdtemp(join(tmpdir(), "berth-proc-"));
  const fields = Array.from({ length: 50 }, (_, index) => String(index + 3));
  const files = {
    "self/stat": `1 (a ) b) ${fields.join(" ")}`,
    "self/status": "Name:\tberth\nVmRSS:\t   2048 kB\n",
    "self/limits":
      "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024  4096  files\nMax address space         unlimited  unlimited  bytes\n",
    "self/net/netstat": "TcpExt: A B\nTcpExt: 1 2\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 0 500 700\n",
    stat: "cpu 1\nbtime 1000\n",
    "self/fd/0": "",
    "self/fd/1": "",
  };
  for (const [path, content] of Object.entries(files)) {
    await mkdir(join(proc, path, ".."), { recursive: true });
    await writeFile(join(proc, path), content);
  }
  expect(readProcessFigures(proc)).toEqual({
    cpuSeconds: 0.29,
    openFiles: 2,
    maxOpenFiles: 1024,
    residentBytes: 2048 * 1024,
    virtualBytes: 23,
    maxVirtualBytes: 2 ** 64,
    bootSeconds: 1000,
    startedSeconds: 1000.22,
    receivedBytes: 500,
    transmittedBytes: 700,
  });
  await rm(proc, { recursive: true });
});

test("the figures of this process are plausible", () => {
  const { cpuSeconds, openFiles, residentBytes, startedSeconds } = readProcessFigures();
  expect(cpuSeconds).toBeGreaterThan(0);
  expect(openFiles).toBeGreaterThan(2);
  expect(residentBytes).toBeGreaterThan(10 * 2 ** 20);
  expect(startedSeconds).toBeLessThanOrEqual(Date.now() / 1000);
});
