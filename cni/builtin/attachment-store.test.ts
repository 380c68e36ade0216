import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { hostLinkName, ifbName, macOf } from "./attachment-names.ts";
import { type AttachmentRecord, createAttachmentStore } from "./attachment-store.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "berth-attachments-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const first: AttachmentRecord = {
  containerId: "c1",
  ifName: "eth0",
  addresses: ["10.88.0.2/16", "fd00::2/64"],
  gateways: ["10.88.0.1", "fd00::1"],
  hostPorts: [{ hostPort: 8080, containerPort: 80, protocol: "tcp", hostIP: "" }],
};
const second: AttachmentRecord = { ...first, containerId: "c2" };

test("a record is found again, by another store of the same folder", () => {
  createAttachmentStore(folder).write(first);
  createAttachmentStore(folder).write(second);
  const store = createAttachmentStore(folder);
  expect(store.find(first)).toEqual(first);
  expect(store.list()).toEqual([first, second]);
  store.remove(first);
  store.remove(first);
  expect(store.find(first)).toBeUndefined();
  expect(store.list()).toEqual([second]);
});

test("the origin of an attachment is the cache of its executor, and when its record was written", () => {
  const store = createAttachmentStore(folder, "/var/lib/cni");
  store.write(first);
  createAttachmentStore(folder).write(second);
  utimesSync(join(folder, "attachments/c1:eth0.json"), 1_000, 1_000);
  writeFileSync(join(folder, "attachments/c3:eth0.json"), "{");
  expect(store.origins()).toEqual([
    { containerId: "c1", ifName: "eth0", cacheDir: "/var/lib/cni", writtenAt: 1_000_000 },
    { containerId: "c2", ifName: "eth0", cacheDir: undefined, writtenAt: expect.any(Number) },
  ]);
  expect(createAttachmentStore(join(folder, "absent")).origins()).toEqual([]);
});

test("the record of a process that was killed while it wrote it is removed with the attachment", () => {
  const store = createAttachmentStore(folder);
  store.makeFolders();
  writeFileSync(join(folder, "attachments/c1:eth0.json.tmp"), "{");
  expect(store.list()).toEqual([]);
  store.remove(first);
  expect(readdirSync(join(folder, "attachments"))).toEqual([]);
});

test("an empty folder has no records and no reservations", () => {
  const store = createAttachmentStore(join(folder, "absent"));
  expect(store.list()).toEqual([]);
  expect(store.find(first)).toBeUndefined();
  expect(store.reserved()).toEqual(new Map());
  store.remove(first);
  store.release("10.88.0.2", first);
});

test("an address has one owner, who alone can release it", () => {
  const store = createAttachmentStore(folder);
  expect(store.reserve("10.88.0.2", first)).toBe(true);
  expect(store.reserve("10.88.0.2", first)).toBe(true);
  expect(createAttachmentStore(folder).reserve("10.88.0.2", second)).toBe(false);
  expect(store.reserve("fd00::2", second)).toBe(true);
  expect(store.reserved()).toEqual(
    new Map([
      ["10.88.0.2", "c1:eth0"],
      ["fd00::2", "c2:eth0"],
    ]),
  );
  store.release("10.88.0.2", second);
  expect(store.reservedAddresses()).toEqual(new Set(["10.88.0.2", "fd00::2"]));
  store.release("10.88.0.2", first);
  expect(store.reservedAddresses()).toEqual(new Set(["fd00::2"]));
});

test.each([
  "",
  "{",
  "null",
  "[]",
  '{"containerId":"c1"}',
  `{"containerId":1,"ifName":"eth0","addresses":[],"gateways":[],"hostPorts":[]}`,
])("a record that reads %p is none, and can be replaced", (text) => {
  const store = createAttachmentStore(folder);
  store.write(second);
  writeFileSync(join(folder, "attachments/c1:eth0.json"), text);
  expect(store.find(first)).toBeUndefined();
  expect(store.list()).toEqual([second]);
  store.write(first);
  expect(store.find(first)).toEqual(first);
});

test("names of links fit, and depend on network, container and interface", () => {
  const names = [
    hostLinkName("pods", first),
    hostLinkName("pods", second),
    hostLinkName("pods", { ...first, ifName: "net1" }),
    hostLinkName("other", first),
    ifbName("pods", first),
  ];
  expect(new Set(names).size).toBe(names.length);
  for (const name of names) expect(name).toMatch(/^(veth|bifb)[0-9a-f]{11}$/);
});

test("the hardware address follows from the address", () => {
  expect(macOf(Uint8Array.of(10, 88, 0, 5))).toEqual(Uint8Array.of(0x0a, 0x58, 10, 88, 0, 5));
  const ofIpv6 = [1, 2].map((last) => macOf(Uint8Array.of(0xfd, ...new Uint8Array(14), last)).join(":"));
  expect(new Set(ofIpv6).size).toBe(2);
});

test("the last addresses are found by another store of the same folder, and none where the file is absent or torn", () => {
  const store = createAttachmentStore(folder);
  expect(store.lastAddresses()).toEqual([]);
  store.writeLastAddresses(["10.88.0.2", "fd00::2"]);
  expect(createAttachmentStore(folder).lastAddresses()).toEqual(["10.88.0.2", "fd00::2"]);
  for (const text of ["", '["10.88.0.2"', "{}", "[4]"]) {
    writeFileSync(join(folder, "last-addresses.json"), text);
    expect(store.lastAddresses()).toEqual([]);
  }
});
