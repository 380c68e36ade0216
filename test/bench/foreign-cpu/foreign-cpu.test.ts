import { expect, test } from "bun:test";
import { type CpuSample, describeForeignCpu, foreignCpuIn, isTooMuch } from "./foreign-cpu.ts";

/** Two seconds of two CPUs. */
const sample = (foreign: CpuSample["foreign"], stealMs = 0): CpuSample => ({ totalMs: 4_000, stealMs, foreign });
const times = (count: number, one: CpuSample) => Array.from({ length: count }, () => one);

test("shares are those of all CPUs, by process, and steal is named apart", () => {
  const samples = [...times(90, sample({ node: 40, sshd: 8, ps: 1 }, 12)), ...times(10, sample({ cc1: 200 }, 12))];
  const cpu = foreignCpuIn(samples, 2);
  expect(describeForeignCpu(cpu)).toBe(
    "Meanwhile other processes used 1.6 % of all CPUs (node 0.9 %, cc1 0.5 %, sshd 0.2 %), other machines 0.3 % (steal); together 2.8 % in the busiest minute.",
  );
  expect(isTooMuch(cpu)).toBe(false);
});

test("a quiet machine has no processes to name", () => {
  expect(describeForeignCpu(foreignCpuIn(times(3, sample({})), 2))).toBe(
    "Meanwhile other processes used 0.0 % of all CPUs, other machines 0.0 % (steal); together 0.0 % in the busiest minute.",
  );
});

test.each([
  { what: "3 % all the time", samples: times(60, sample({ cc1: 120 })), refused: false },
  { what: "more than 3 % all the time", samples: times(60, sample({ cc1: 124 })), refused: true },
  { what: "more than 3 % with the steal", samples: times(60, sample({ cc1: 100 }, 24)), refused: true },
  {
    what: "10 % in one minute of ten",
    samples: [...times(270, sample({})), ...times(30, sample({ cc1: 400 }))],
    refused: false,
  },
  {
    what: "11 % in one minute of ten",
    samples: [...times(270, sample({})), ...times(30, sample({ cc1: 440 }))],
    refused: true,
  },
  {
    what: "one second of one CPU in ten minutes",
    samples: [...times(299, sample({})), sample({ cron: 1_000 })],
    refused: false,
  },
  { what: "11 % in less than a minute altogether", samples: times(5, sample({ cc1: 440 })), refused: true },
])("$what: refused $refused", ({ samples, refused }) => {
  expect(isTooMuch(foreignCpuIn(samples, 2))).toBe(refused);
});
