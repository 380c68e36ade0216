import { expect, test } from "bun:test";
import { FilesError } from "../../host/fs/files.ts";
import type { Sysctls } from "../../host/sysctls.ts";
import { checkKernelTunables } from "./kernel-tunables.ts";

const expected = {
  "vm/overcommit_memory": "1",
  "vm/panic_on_oom": "0",
  "kernel/panic": "10",
  "kernel/panic_on_oops": "1",
  "kernel/keys/root_maxkeys": "1000000",
  "kernel/keys/root_maxbytes": "25000000",
};

/** A kernel with these settings. */
function sysctlsOf(settings: Readonly<Record<string, string>>): Sysctls {
  return {
    async read(path) {
      const value = settings[path];
      if (value === undefined) throw new FilesError("ENOENT", path, `/proc/sys/${path} does not exist`);
      return value;
    },
  };
}

test("protectKernelDefaults accepts a kernel that has Kubernetes' settings", async () => {
  await checkKernelTunables({ protectKernelDefaults: true }, sysctlsOf(expected));
});

test("without protectKernelDefaults no setting is read", async () => {
  await checkKernelTunables({ protectKernelDefaults: false }, sysctlsOf({}));
});

test("protectKernelDefaults refuses any other setting, and names the command that corrects those that can be set", async () => {
  const { "kernel/keys/root_maxkeys": _missing, ...others } = expected;
  const refused = checkKernelTunables(
    { protectKernelDefaults: true },
    sysctlsOf({ ...others, "vm/overcommit_memory": "0", "kernel/panic": "0" }),
  );
  expect(await refused.catch(String)).toMatchInlineSnapshot(
    `"StartError: protectKernelDefaults is true, and the kernel has other settings than Kubernetes expects (vm.overcommit_memory is 0, kernel.panic is 0, kernel.keys.root_maxkeys is unreadable (/proc/sys/kernel/keys/root_maxkeys does not exist)): run sysctl -w vm.overcommit_memory=1 kernel.panic=10 and keep them in /etc/sysctl.d, or set protectKernelDefaults: false; this kernel lacks what is unreadable, or /proc/sys hides it"`,
  );
});

for (const path of Object.keys(expected))
  test(`protectKernelDefaults checks ${path.replaceAll("/", ".")}`, async () => {
    const refused = checkKernelTunables({ protectKernelDefaults: true }, sysctlsOf({ ...expected, [path]: "7" }));
    expect(await refused.catch(String)).toContain(`${path.replaceAll("/", ".")} is 7`);
  });
