import { expect, test } from "bun:test";
import { nodeSettings } from "../../../test/fakes/observed-node.ts";
import { type ReservationSettings, reservationProblem, reservedResources } from "./reservations.ts";

const capacity = { cpu: "4", memory: "8Gi", "ephemeral-storage": "64Gi", pid: "32768", pods: "110" };

const rows: readonly (readonly [sentence: string, settings: Partial<ReservationSettings>])[] = [
  ["nothing is reserved", { evictionHard: {} }],
  ["the defaults", {}],
  ["all of the memory but the threshold", { systemReserved: { memory: "8092Mi" } }],
  ["one byte more", { systemReserved: { memory: "8485076993" } }],
  ["both reservations and the threshold", { systemReserved: { memory: "4Gi" }, kubeReserved: { memory: "4Gi" } }],
  ["a threshold in percent", { systemReserved: { memory: "7800Mi" }, evictionHard: { "memory.available": "10%" } }],
  ["CPU", { systemReserved: { cpu: "3" }, kubeReserved: { cpu: "1001m" } }],
  ["exactly all CPUs", { systemReserved: { cpu: "3" }, kubeReserved: { cpu: "1" } }],
  ["storage", { kubeReserved: { "ephemeral-storage": "60Gi" } }],
  ["processes", { systemReserved: { pid: "30000" }, kubeReserved: { pid: "2769" } }],
  ["several at once", { systemReserved: { cpu: "5", memory: "9Gi" } }],
  ["reserved CPUs replace the reservations of CPU", { reservedSystemCPUs: "0-3", kubeReserved: { cpu: "9" } }],
  ["reserved CPUs that are not online", { reservedSystemCPUs: "2-5" }],
];

test("the node refuses reservations that it cannot keep, with the arithmetic", () => {
  const lines = rows.map(
    ([sentence, settings]) =>
      `${sentence}:\n  ${reservationProblem(capacity, "0-3", { ...nodeSettings, ...settings }) ?? "fits"}`,
  );
  expect(`\n${lines.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    nothing is reserved:
      fits
    the defaults:
      fits
    all of the memory but the threshold:
      fits
    one byte more:
      more is reserved than the machine has: memory 8Gi, but systemReserved 8485076993 + evictionHard memory.available 100Mi = 8589934593. Reserve less, or set a lower threshold
    both reservations and the threshold:
      more is reserved than the machine has: memory 8Gi, but systemReserved 4Gi + kubeReserved 4Gi + evictionHard memory.available 100Mi = 8292Mi. Reserve less, or set a lower threshold
    a threshold in percent:
      more is reserved than the machine has: memory 8Gi, but systemReserved 7800Mi + evictionHard memory.available 10%: 858993472 = 9037886272. Reserve less, or set a lower threshold
    CPU:
      more is reserved than the machine has: cpu 4, but systemReserved 3 + kubeReserved 1001m = 4001m. Reserve less, or set a lower threshold
    exactly all CPUs:
      fits
    storage:
      more is reserved than the machine has: ephemeral-storage 64Gi, but kubeReserved 60Gi + evictionHard nodefs.available 10%: 6871947776 = 71296457216. Reserve less, or set a lower threshold
    processes:
      more is reserved than the machine has: pid 32768, but systemReserved 30k + kubeReserved 2769 = 32769. Reserve less, or set a lower threshold
    several at once:
      more is reserved than the machine has: cpu 4, but systemReserved 5; memory 8Gi, but systemReserved 9Gi + evictionHard memory.available 100Mi = 9316Mi. Reserve less, or set a lower threshold
    reserved CPUs replace the reservations of CPU:
      fits
    reserved CPUs that are not online:
      reservedSystemCPUs (2-5) names CPUs that are not online: 4, 5 (online: 0-3)
    "
  `);
});

test("a resource whose capacity is unknown is not checked", () => {
  const settings = { ...nodeSettings, systemReserved: { pid: "99999" }, reservedSystemCPUs: "7" };
  expect(reservationProblem({ cpu: "8" }, "", settings)).toBeUndefined();
});

test("reservedSystemCPUs replaces the CPU of systemReserved and kubeReserved", () => {
  const settings = {
    ...nodeSettings,
    systemReserved: { cpu: "1", memory: "1Gi" },
    kubeReserved: { cpu: "1", pid: "9" },
  };
  expect(reservedResources(settings)).toEqual({ system: settings.systemReserved, kube: settings.kubeReserved });
  expect(reservedResources({ ...settings, reservedSystemCPUs: "0,2-3" })).toEqual({
    system: { cpu: "3", memory: "1Gi" },
    kube: { pid: "9" },
  });
});
