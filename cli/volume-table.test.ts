import { expect, test } from "bun:test";
import { formatVolumes } from "./volume-table.ts";

const figures = { availableBytes: 5 * 2 ** 30, capacityBytes: 2 ** 33, inodes: 100, inodesFree: 60, inodesUsed: 40 };

test("each volume has a row with its figures, and a volume without them says why", () => {
  const web = [
    { name: "cache", kind: "emptyDir", limitBytes: 2 ** 20, usedBytes: 4096, ...figures },
    { name: "data", kind: "persistentVolumeClaim", claim: "web-data", usedBytes: 3 * 2 ** 30, ...figures },
    { name: "logs", kind: "hostPath" },
  ];
  const stuck = [{ name: "share", kind: "nfs", problem: "no figures within 4 s: \u001b[2J" }];
  const pods = [
    { namespace: "shop", name: "web", uid: "u-1", volumes: web },
    { namespace: "default", name: "reader", uid: "u-2", volumes: stuck },
    { namespace: "default", name: "bare", uid: "u-3", volumes: [] },
  ];
  expect(`\n${formatVolumes({ pods })}`).toBe(`
NAMESPACE  POD     VOLUME  KIND                            USED     AVAILABLE  CAPACITY  LIMIT    INODES
shop       web     cache   emptyDir                        4.0 KiB  5.0 GiB    8.0 GiB   1.0 MiB  40
shop       web     data    persistentVolumeClaim/web-data  3.0 GiB  5.0 GiB    8.0 GiB   -        40
shop       web     logs    hostPath                        -        -          -         -        -
default    reader  share   nfs                             -        -          -         -        -

reader: share: no figures within 4 s: \\u001b[2J
`);
});

test("80 columns show what fits, and which columns are missing", () => {
  const volumes = ["cache", "data"].map((name) => ({
    name,
    kind: "emptyDir",
    limitBytes: 2 ** 20,
    usedBytes: 4096,
    ...figures,
  }));
  const pods = [{ namespace: "shop", name: "web-7d4b9c6f5-x2x4z-of-a-deployment", uid: "u-1", volumes }];
  expect(`\n${formatVolumes({ pods }, 80)}`).toBe(`
POD                                  VOLUME  KIND      USED     AVAILABLE
web-7d4b9c6f5-x2x4z-of-a-deployment  cache   emptyDir  4.0 KiB  5.0 GiB
web-7d4b9c6f5-x2x4z-of-a-deployment  data    emptyDir  4.0 KiB  5.0 GiB

not shown in 80 columns: INODES, NAMESPACE, CAPACITY, LIMIT; see berth pods
--volumes | cat
`);
});

test("without volumes there is no table", () => {
  expect(formatVolumes({ pods: [] })).toBe("no volumes\n");
});
