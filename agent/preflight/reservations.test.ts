import { expect, test } from "bun:test";
import { nodeSettings, observedMachine } from "../../test/fakes/observed-node.ts";
import { checkReservations } from "./reservations.ts";

test("an agent does not start on a machine that has less than is reserved", () => {
  const check = (systemReserved: Readonly<Record<string, string>>) => () =>
    checkReservations({ ...observedMachine, maxTasks: 32_768 }, { ...nodeSettings, systemReserved });
  expect(check({ cpu: "1", memory: "1Gi", "ephemeral-storage": "1Gi", pid: "1000" })).not.toThrow();
  expect(check({ pid: "32769" })).toThrow(
    expect.objectContaining({
      name: "StartError",
      message:
        "more is reserved than the machine has: pid 32768, but systemReserved 32769. Reserve less, or set a lower threshold",
    }),
  );
});

test("without a known limit of processes, their reservation is not checked", () => {
  const settings = { ...nodeSettings, systemReserved: { pid: "99999999" } };
  expect(() => checkReservations({ ...observedMachine, maxTasks: undefined }, settings)).not.toThrow();
});
