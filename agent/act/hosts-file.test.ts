import { expect, test } from "bun:test";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { FakeDisk } from "../../test/fakes/files.ts";
import { nodeFacts } from "../../test/fakes/node-facts.ts";
import { writeHostsFile } from "./hosts-file.ts";

const pod: Pod = { metadata: { name: "web", uid: "u" }, spec: { containers: [] } };

async function diskOfPod(): Promise<FakeDisk> {
  const disk = new FakeDisk(() => 0);
  await disk.at("/").makeFolder("root/pods/u", 0o750);
  await disk.at("/").makeFolder("etc", 0o755);
  return disk;
}
const viewsOf = (disk: FakeDisk) => ({ root: disk.at("/root"), machine: disk.at("/") });

test("each container creation writes the pod's current addresses", async () => {
  const disk = await diskOfPod();
  for (const ip of ["10.0.0.2", "10.0.0.3"]) await writeHostsFile(viewsOf(disk), pod, { name: "a" }, [ip], nodeFacts);
  expect(await disk.at("/root").read("pods/u/etc-hosts", 1000)).toEndWith("10.0.0.3\tweb\n");
  expect((await disk.at("/root").stat("pods/u/etc-hosts"))?.mode).toBe(0o644);
});

test("a host-network pod gets the node's hosts file", async () => {
  const disk = await diskOfPod();
  await disk.at("/").write("etc/hosts", "192.0.2.9 printer\n", 0o644);
  await writeHostsFile(
    viewsOf(disk),
    { ...pod, spec: { ...pod.spec, hostNetwork: true } },
    { name: "a" },
    [],
    nodeFacts,
  );
  expect(await disk.at("/root").read("pods/u/etc-hosts", 1000)).toContain("192.0.2.9 printer\n");
});

test("a host-network pod on a node without /etc/hosts fails", async () => {
  const disk = await diskOfPod();
  const onHost = { ...pod, spec: { ...pod.spec, hostNetwork: true } };
  const made = writeHostsFile(viewsOf(disk), onHost, { name: "a" }, [], nodeFacts);
  await expect(made).rejects.toMatchObject({ code: "ENOENT", path: "/etc/hosts" });
});
