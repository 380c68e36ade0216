import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { openSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { builtBinary, keepsKernelTunables, kubeletConfiguration } from "../../bed/agent.ts";
import { buildIfStale } from "../../bed/build.ts";
import { ifAbsent } from "../../bed/if-absent.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { type ControlPlane, startControlPlane } from "../../upstream/control-plane.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("an agent that runs in a container of its cluster");

/** Runs the agent as in a container: with a service account volume, in its own mount namespace. */
const containerScript = `
mount -t tmpfs none /run
mkdir -p /run/secrets/kubernetes.io/serviceaccount
mount --bind "$1" /run/secrets/kubernetes.io/serviceaccount
shift
exec "$@"
`;

describe.skipIf(skip !== undefined)("with --in-cluster", () => {
  let folder: string;
  let plane: ControlPlane;
  let child: ChildProcess | undefined;
  const kubectl = (...args: readonly string[]) => plane.kubectl(args);
  const log = () => readFile(join(folder, "berth.log"), "utf8").catch(ifAbsent(""));

  beforeAll(async () => {
    await buildIfStale();
    folder = await mkdtemp(join(tmpdir(), "berth-in-cluster-"));
    plane = await startControlPlane({ stateDir: join(folder, "plane"), components: [], print: console.log });
    await kubectl("create", "serviceaccount", "berth", "--namespace=kube-system");
    const account = "--serviceaccount=kube-system:berth";
    await kubectl("create", "clusterrolebinding", "berth", "--clusterrole=system:node", account);
    await mkdir(join(folder, "volume"));
    await put("ca.crt", plane.ca);
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await stop();
    await plane?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  async function put(name: string, text: string): Promise<void> {
    await writeFile(join(folder, `.${name}`), text);
    await rename(join(folder, `.${name}`), join(folder, "volume", name));
  }
  async function start(
    environment: Readonly<Record<string, string>>,
    ...flags: readonly string[]
  ): Promise<ChildProcess> {
    const config = join(folder, "kubelet.yaml");
    const places = { manifests: join(folder, "manifests"), podLogs: join(folder, "logs") };
    // The test needs no runtime: the socket does not exist.
    await writeFile(config, kubeletConfiguration({ ...places, endpoint: `unix://${folder}/none.sock` }));
    const own = [
      "run",
      "--config",
      config,
      "--root-dir",
      join(folder, "kubelet"),
      "--hostname-override=node-a",
      keepsKernelTunables,
    ];
    const argv = ["--mount", "--propagation=private", "sh", "-euc", containerScript, "sh", join(folder, "volume")];
    const output = openSync(join(folder, "berth.log"), "w");
    const env = { ...process.env, ...environment };
    child = spawn("unshare", [...argv, builtBinary, ...own, ...flags], { env, stdio: ["ignore", output, output] });
    return child;
  }
  async function stop(): Promise<void> {
    if (child === undefined || child.exitCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    await ended;
  }
  const environment = () => {
    const { hostname, port } = new URL(plane.server);
    return { KUBERNETES_SERVICE_HOST: hostname, KUBERNETES_SERVICE_PORT: port };
  };

  test("the agent joins with the container's service account and reloads its token", async () => {
    await start(environment(), "--in-cluster");
    await pollUntil("the log line about the missing token", 10_000, async () =>
      /the API server cannot be used: \/var\/run\/secrets\/kubernetes\.io\/serviceaccount\/token does not exist: --in-cluster refers to it/.test(
        await log(),
      ),
    );
    await put("token", await kubectl("create", "token", "berth", "--namespace=kube-system"));
    await pollUntil(
      "a node",
      20_000,
      async () =>
        await kubectl("get", "node", "node-a").then(
          () => true,
          () => false,
        ),
    );
    const leaseArguments = ["get", "lease", "node-a", "--namespace=kube-node-lease"];
    // The lease does not exist at first; the timeout reports any other failure.
    const renewTime = () => kubectl(...leaseArguments, "--output=jsonpath={.spec.renewTime}").catch(() => "");
    await pollUntil("a lease", 20_000, async () => (await renewTime()) !== "");

    // A new account of the same name makes the tokens of the old one invalid.
    await kubectl("delete", "serviceaccount", "berth", "--namespace=kube-system");
    await kubectl("create", "serviceaccount", "berth", "--namespace=kube-system");
    await put("token", await kubectl("create", "token", "berth", "--namespace=kube-system"));
    const before = await renewTime();
    await pollUntil("a lease by the new token", 30_000, async () => (await renewTime()) > before);
    await stop();
  });

  test("the agent outside of a container exits with one line and code 1", async () => {
    const none = { KUBERNETES_SERVICE_HOST: "", KUBERNETES_SERVICE_PORT: "" };
    const [code] = (await once(await start(none, "--in-cluster"), "exit")) as [number];
    expect(code).toBe(1);
    expect(await log()).toMatch(
      /^KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT do not name an API server: outside of a pod use --kubeconfig/m,
    );
  });

  test("and --kubeconfig together exit with code 2", async () => {
    const [code] = (await once(
      await start(environment(), "--in-cluster", "--kubeconfig=/etc/kubelet.conf"),
      "exit",
    )) as [number];
    expect(code).toBe(2);
    expect(await log()).toMatch(/^--in-cluster: --kubeconfig is set too: set only one of them$/m);
  });

  test("not given, the agent in the same container registers no node", async () => {
    await kubectl("delete", "node", "node-a");
    await start(environment());
    await pollUntil("an agent that runs", 10_000, async () => (await log()).includes("berth is running"));
    await stop();
    expect(await kubectl("get", "nodes", "--output=name")).toBe("");
  });
});
