import { expect, test } from "bun:test";
import { FilesError } from "../../../host/fs/files.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { openKeptList } from "./kept-list.ts";

test("a list that a full disk refuses is written at the next change of the Node object, and the problem says why", async () => {
  const written: string[] = [];
  let isFull = true;
  const files = {
    stat: async () => undefined,
    makeFolder: async () => {},
    read: async () => written.at(-1) ?? "",
    async write(path: string, text: string) {
      if (isFull) throw new FilesError("ENOSPC", path, `${path} cannot be written: no space left on device`);
      written.push(text);
    },
  };
  const log = new FakeLog();
  const list = await openKeptList({
    files,
    socket: "/r/cni.sock",
    use: "insteadOfChain",
    standaloneCIDRs: undefined,
    log,
  });
  const seeNode = async () => {
    list.setPodCIDRs(["10.1.0.0/24"]);
    await list.settled();
  };
  expect(list.problem()).toContain("the Node object has no pod CIDR yet");
  await seeNode();
  expect(list.problem()).toEndWith("network.d/10-builtin.conflist cannot be written: no space left on device");
  expect(log.lines).toMatchObject([{ level: "error" }]);
  isFull = false;
  await seeNode();
  await seeNode();
  expect([list.problem(), written.length]).toEqual([undefined, 1]);
  expect(written[0]).toContain("10.1.0.0/24");
});
