import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { builtVersion, ensurePrograms, locatePrograms, upstreamPrograms } from "./programs.ts";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-programs-test-"));
});
afterEach(() => rm(folder, { recursive: true }));

async function fill(place: string, names: readonly string[], script = "#!/bin/sh\n"): Promise<string> {
  await mkdir(place, { recursive: true });
  for (const name of names) await writeFile(join(place, name), script, { mode: 0o755 });
  return place;
}
const emptyEnv = () => ({ XDG_CACHE_HOME: join(folder, "cache"), PATH: join(folder, "bin") });
const cached = () => join(folder, "cache", "berth", "upstream", builtVersion());

test("builds the versions that go.mod requires", () => {
  const goMod = "require (\n\tk8s.io/kubernetes v1.37.1\n\tgo.etcd.io/etcd/server/v3 v3.7.0 // indirect\n)\n";
  expect(builtVersion(goMod)).toBe("1.37.1-etcd-3.7.0");
  expect(builtVersion()).toMatch(/^1\.36\.\d+-etcd-3\.6\.\d+$/);
});

test("uses the folder in KUBEBUILDER_ASSETS if it has the programs needed", async () => {
  const assets = await fill(join(folder, "assets"), ["etcd", "kube-apiserver", "kubectl"]);
  const env = { ...emptyEnv(), KUBEBUILDER_ASSETS: assets };
  expect(locatePrograms(["etcd", "kube-apiserver"], env)).toEqual({ kind: "ready", folder: assets });
  expect(locatePrograms(undefined, env)).toEqual({
    kind: "unavailable",
    reason: "the folder in KUBEBUILDER_ASSETS has no kube-controller-manager, kube-scheduler, kubelet",
  });
});

test.each([
  ["without Go", undefined, "`go` is not installed"],
  ["with Debian 12's Go", "go version go1.19.8 linux/amd64", "`go` is 1.19.8 but must be 1.21 or later"],
  ["with another program named go", "Go!", "`go version` prints no version; it must be 1.21 or later"],
])("%s and without KUBEBUILDER_ASSETS the reason is one line that names the remedy", async (_, said, obstacle) => {
  const env = withTools();
  if (said !== undefined) await fill(join(folder, "bin"), ["go"], `#!/bin/sh\necho '${said}'\n`);
  else env.PATH = join(folder, "bin");
  const reason = `${obstacle} to build kubelet, and KUBEBUILDER_ASSETS names no folder with them`;
  expect(locatePrograms(["kubelet"], env)).toEqual({ kind: "unavailable", reason });
  expect(await ensurePrograms(["kubelet"], undefined, env).catch((error: Error) => error.message)).toBe(reason);
});

test("uses programs in the cache without Go", async () => {
  await fill(cached(), upstreamPrograms);
  expect(locatePrograms(undefined, emptyEnv())).toEqual({ kind: "ready", folder: cached() });
});

/** Writes the output of `go build -o FOLDER/`: programs named after their packages. */
const fakeGo = `#!/bin/sh
[ "$1" = version ] && echo go version go1.26.8 linux/amd64 && exit
[ "$1" = list ] && exit
while [ "$1" != -o ]; do shift; done
shift
for name in server kube-apiserver kube-controller-manager kube-scheduler kubelet; do
  printf '#!/bin/sh\\n' > "$1$name"; chmod 755 "$1$name"
done
`;
const withTools = () => ({ ...emptyEnv(), PATH: `${join(folder, "bin")}:/usr/bin:/bin` });

test("builds the programs once with Go, moves them into place in one step, and announces the build", async () => {
  await fill(join(folder, "bin"), ["go"], fakeGo);
  const said: string[] = [];
  for (const _ of ["first", "second"])
    expect(await ensurePrograms(["etcd"], (line) => said.push(line), withTools())).toBe(cached());
  expect(said).toHaveLength(1);
  expect((await readdir(cached())).toSorted()).toEqual([...upstreamPrograms].toSorted());
  expect(await readdir(join(cached(), ".."))).toEqual([builtVersion()]);
});

test("a failed build leaves no files and reports the compiler's output", async () => {
  await fill(join(folder, "bin"), ["go"], "#!/bin/sh\necho go1.26.8\necho 'x.go:1: syntax error' >&2\nexit 1\n");
  const message = await ensurePrograms(["etcd"], undefined, withTools()).catch((error: Error) => error.message);
  expect(message).toBe("cannot build the upstream programs: x.go:1: syntax error");
  expect(await readdir(join(cached(), ".."))).toEqual([]);
});
