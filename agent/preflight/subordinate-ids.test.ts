import { expect, test } from "bun:test";
import { type Exec, ExecError } from "../../host/exec.ts";
import { FilesError } from "../../host/fs/files.ts";
import { FakeDisk } from "../../test/fakes/files.ts";
import { nodeSettings } from "../../test/fakes/observed-node.ts";
import { readIdSpace } from "./subordinate-ids.ts";

interface Scene {
  readonly passwd?: string;
  /** The disk cannot give it back. */
  readonly isBroken?: boolean;
  readonly users?: string | Error;
  readonly groups?: string;
}

async function read({ passwd, isBroken = false, users = "", groups = "" }: Scene) {
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
  const space = await readIdSpace(config as never, { machine: disk.at("/"), exec, path: "/bin" }).catch(
    ({ name, message }: Error) => `${name}: ${message}`,
  );
  return { space, asked };
}

const all = { first: 65_536, length: 2 ** 32 - 65_536, idsPerPod: 65_536 };
const withUser = "root:x:0:0::/root:/bin/sh\nkubelet:x:999:999::/:/bin/false\n";
const failed = (stderr: string, cause?: Error) =>
  new ExecError(["getsubids", "kubelet"], 1, stderr, "getsubids failed", cause);

test("a machine without a user kubelet gives pods all ids but its own, and nobody is asked", async () => {
  expect(await read({})).toEqual({ space: all, asked: [] });
  expect(await read({ passwd: "root:x:0:0::/root:/bin/sh\nkubelets:x:1:1::/:\n" })).toEqual({ space: all, asked: [] });
});

test("one whose users cannot be read may have a user kubelet, so the start ends", async () => {
  expect(await read({ passwd: withUser, isBroken: true })).toEqual({
    space:
      "StartError: nobody can tell whether there is a user kubelet: /etc/passwd failed: input/output error: put that in order",
    asked: [],
  });
});

test("ids that nothing can tell of are not set aside", async () => {
  const users = failed("", Object.assign(new Error("spawn getsubids ENOENT"), { code: "ENOENT" }));
  expect((await read({ passwd: withUser, users })).space).toEqual(all);
});

test("ids that are set aside for the user kubelet are those of pods", async () => {
  const users = "0: kubelet 131072 131072\n";
  expect(await read({ passwd: withUser, users, groups: users })).toEqual({
    space: { first: 131_072, length: 131_072, idsPerPod: 65_536 },
    asked: ["getsubids kubelet", "getsubids -g kubelet"],
  });
});

test("what cannot be used ends the start, and says why and what to do", async () => {
  const users = "0: kubelet 131072 65536\n";
  expect((await read({ passwd: withUser, users, groups: users })).space).toBe(
    "StartError: getsubids kubelet: there are 65536 ids, which is not enough for 2 pods (maxPods) of 65536 each (userNamespaces.idsPerPod): 131072 are needed",
  );
  expect((await read({ passwd: withUser, users: failed("Error fetching ranges\n") })).space).toBe(
    "StartError: getsubids kubelet does not tell which ids pods may have: Error fetching ranges: set some aside in /etc/subuid and /etc/subgid, or remove the user kubelet",
  );
  expect((await read({ passwd: withUser, users: failed("") })).space).toBe(
    "StartError: getsubids kubelet does not tell which ids pods may have: it ended with code 1: set some aside in /etc/subuid and /etc/subgid, or remove the user kubelet",
  );
});
