import { expect, test } from "bun:test";
import { type Exec, ExecError } from "../../host/exec.ts";
import { FilesError } from "../../host/fs/files.ts";
import { FakeDisk } from "../../test/fakes/files.ts";
import { nodeSettings } from "../../test/fakes/observed-node.ts";
import { readIdPool } from "./subordinate-ids.ts";

interface MachineOptions {
  readonly passwd?: string;
  /** Reads of the disk fail. */
  readonly isBroken?: boolean;
  readonly users?: string | Error;
  readonly groups?: string;
}

async function read({ passwd, isBroken = false, users = "", groups = "" }: MachineOptions) {
  const disk = new FakeDisk(() => 0);
  if (passwd !== undefined) await disk.at("/").makeFolder("etc", 0o755);
  if (passwd !== undefined) await disk.at("/").write("etc/passwd", passwd, 0o644);
  disk.before = (verb, path) => {
    if (isBroken && verb === "readEnd") throw new FilesError("EIO", path, `${path} failed: input/output error`);
  };
  const asked: string[] = [];
  const exec: Exec = {
    async run(argv) {
      asked.push(argv.join(" "));
      if (users instanceof Error) throw users;
      return { stdout: argv.includes("-g") ? groups : users, stderr: "" };
    },
  };
  const config = { idsPerPod: 65_536, node: { ...nodeSettings, maxPods: 2 } };
  const space = await readIdPool(config as never, { machine: disk.at("/"), exec, path: "/bin" }).catch(
    ({ name, message }: Error) => `${name}: ${message}`,
  );
  return { space, asked };
}

const all = { first: 65_536, length: 2 ** 32 - 65_536, idsPerPod: 65_536 };
const withUser = "root:x:0:0::/root:/bin/sh\nkubelet:x:999:999::/:/bin/false\n";
const failed = (stderr: string, cause?: Error) =>
  new ExecError(["getsubids", "kubelet"], 1, stderr, "getsubids failed", cause);

test("without a user kubelet pods get all ids but the first range, and getsubids is not run", async () => {
  expect(await read({})).toEqual({ space: all, asked: [] });
  expect(await read({ passwd: "root:x:0:0::/root:/bin/sh\nkubelets:x:1:1::/:\n" })).toEqual({ space: all, asked: [] });
});

test("an unreadable /etc/passwd prevents the start, because there may be a user kubelet", async () => {
  expect(await read({ passwd: withUser, isBroken: true })).toEqual({
    space:
      "StartError: cannot find out whether the user kubelet exists: /etc/passwd failed: input/output error: fix that",
    asked: [],
  });
});

test("without getsubids no ids are reserved", async () => {
  const users = failed("", Object.assign(new Error("spawn getsubids ENOENT"), { code: "ENOENT" }));
  expect((await read({ passwd: withUser, users })).space).toEqual(all);
});

test("pods get the ids that are reserved for the user kubelet", async () => {
  const users = "0: kubelet 131072 131072\n";
  expect(await read({ passwd: withUser, users, groups: users })).toEqual({
    space: { first: 131_072, length: 131_072, idsPerPod: 65_536 },
    asked: ["getsubids kubelet", "getsubids -g kubelet"],
  });
});

test("unusable ids prevent the start, with the reason and a remedy", async () => {
  const users = "0: kubelet 131072 65536\n";
  expect((await read({ passwd: withUser, users, groups: users })).space).toBe(
    "StartError: getsubids kubelet: there are 65536 ids, which is not enough for 2 pods (maxPods) of 65536 each (userNamespaces.idsPerPod): 131072 are needed",
  );
  expect((await read({ passwd: withUser, users: failed("Error fetching ranges\n") })).space).toBe(
    "StartError: getsubids kubelet does not return the ids for pods: Error fetching ranges: set some aside in /etc/subuid and /etc/subgid, or remove the user kubelet",
  );
  expect((await read({ passwd: withUser, users: failed("") })).space).toBe(
    "StartError: getsubids kubelet does not return the ids for pods: it ended with code 1: set some aside in /etc/subuid and /etc/subgid, or remove the user kubelet",
  );
});
