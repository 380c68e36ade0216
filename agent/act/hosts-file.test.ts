import { expect, test } from "bun:test";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { FakeDisk } from "../../test/fakes/files.ts";
import { nodeFacts } from "../../test/fakes/node-facts.ts";
import { makeHostsFile } from "./hosts-file.ts";

const pod: Pod = { metadata: { name: "web", uid: "u" }, spec: { containers: [] } };

async function diskOfPod(): Promise<FakeDisk> {
  const disk = new FakeDisk(() => 0);
  await disk.at("/").makeFolder("root/pods/u", 0o750);
  await disk.at("/").makeFolder("etc", 0o755);
  return disk;
}
const viewsOf = (disk: FakeDisk) => ({ root: disk.at("/root"), machine: disk.at("/") });

test("each container finds the addresses of now", async () => {
  const disk = await diskOfPod();
  for (const ip of ["10.0.0.2", "10.0.0.3"]) await makeHostsFile(viewsOf(disk), pod, { name: "a" }, [ip], nodeFacts);
  expect(await disk.at("/root").read("pods/u/etc-hosts", 1000)).toEndWith("10.0.0.3\tweb\n");
  expect((await disk.at("/root").stat("pods/u/etc-hosts"))?.mode).toBe(0o644);
});

test("a pod on the node's network finds what the node knows", async () => {
  const disk = await diskOfPod();
  await disk.at("/").write("etc/hosts", "192.0.2.9 printer\n", 0o644);
  await makeHostsFile(
    viewsOf(disk),
    { ...pod, spec: { ...pod.spec, hostNetwork: true } },
    { name: "a" },
    [],
    nodeFacts,
  );
  expect(await disk.at("/root").read("pods/u/etc-hosts", 1000)).toContain("192.0.2.9 printer\n");
});

test("a node without that file says so", async () => {
  const disk = await diskOfPod();
  const onHost = { ...pod, spec: { ...pod.spec, hostNetwork: true } };
  const made = makeHostsFile(viewsOf(disk), onHost, { name: "a" }, [], nodeFacts);
  await expect(made).rejects.toMatchObject({ code: "ENOENT", path: "/etc/hosts" });
});
