import { describe, expect, test } from "bun:test";
import type { Exec } from "../../host/exec.ts";
import { FakeClock } from "../../test/fakes/clock.ts";
import { FakeDisk } from "../../test/fakes/files.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { createCertificateAuthority } from "../../test/upstream/pki.ts";
import { KubeError } from "../error.ts";
import type { ClusterEndpoint, ClusterEndpointSource } from "./cluster-endpoint.ts";
import { readKubeconfig } from "./kubeconfig.ts";

const authority = createCertificateAuthority("kubernetes");
const ours = authority.issue({ commonName: "system:node:a" });
const base64 = (text: string) => Buffer.from(text).toString("base64");
const ca = base64(authority.cert);

const path = "/etc/kubernetes/kubelet.conf";

/** A kubeconfig in kubeadm's format; `cluster` and `user` are lines of YAML. */
function kubeconfig(cluster: readonly string[], user: readonly string[]): string {
  return [
    "apiVersion: v1",
    "kind: Config",
    "clusters:",
    "- name: kubernetes",
    "  cluster:",
    ...cluster.map((line) => `    ${line}`),
    "contexts:",
    "- name: system:node:a@kubernetes",
    "  context: {cluster: kubernetes, user: system:node:a, namespace: default}",
    "current-context: system:node:a@kubernetes",
    "preferences: {}",
    "users:",
    "- name: system:node:a",
    "  user:",
    ...user.map((line) => `    ${line}`),
    "",
  ].join("\n");
}
const server = "server: https://10.0.0.1:6443";
const goodCluster = [`certificate-authority-data: ${ca}`, server];

function nodeWith(files: Readonly<Record<string, string>>, exec?: Exec) {
  const clock = new FakeClock();
  const log = new FakeLog();
  const disk = new FakeDisk(clock.now);
  const root = disk.at("/");
  const ready = (async () => {
    for (const folder of ["etc/kubernetes/pki", "var/lib/kubelet/pki"]) await root.makeFolder(folder, 0o755);
    for (const [name, content] of Object.entries(files)) await root.write(name, content, 0o600);
  })();
  const source = async (): Promise<ClusterEndpointSource> => {
    await ready;
    const none: Exec = { run: () => Promise.reject(new Error("nothing is to be run")) };
    return await readKubeconfig({ path, files: root, exec: exec ?? none, environment: { PATH: "/bin" }, clock, log });
  };
  const read = async (): Promise<ClusterEndpoint> => (await source()).latest();
  return { source, read, log, clock, root };
}

test("reads inline credentials, as kubeadm writes them for an administrator", async () => {
  const text = kubeconfig(goodCluster, [
    `client-certificate-data: ${base64(ours.cert)}`,
    `client-key-data: ${base64(ours.key)}`,
  ]);
  const { credentials, server: url, ...rest } = await nodeWith({ [path]: text }).read();
  expect(url.href).toBe("https://10.0.0.1:6443/");
  expect(rest).toEqual({
    certificateAuthority: authority.cert,
    tlsServerName: undefined,
    insecureSkipTlsVerify: false,
  });
  expect(await credentials.identity()).toEqual({ certificate: ours });
});

test("reads credential files, relative to the kubeconfig and absolute, and key and certificate from one file", async () => {
  const text = kubeconfig(
    ["certificate-authority: pki/ca.crt", "server: https://api.example:6443/base", "tls-server-name: kubernetes"],
    [
      "client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem",
      "client-key: ../../var/lib/kubelet/pki/kubelet-client-current.pem",
    ],
  );
  const cluster = await nodeWith({
    [path]: text,
    "/etc/kubernetes/pki/ca.crt": `# a comment\n${authority.cert}`,
    "/var/lib/kubelet/pki/kubelet-client-current.pem": ours.cert + ours.key,
  }).read();
  expect(cluster.certificateAuthority).toBe(authority.cert);
  expect(cluster.tlsServerName).toBe("kubernetes");
  expect(cluster.server.pathname).toBe("/base");
  expect(await cluster.credentials.identity()).toEqual({ certificate: ours });
});

test("reads a token, and prefers a tokenFile", async () => {
  const inline = await nodeWith({ [path]: kubeconfig(goodCluster, ["token: abc.def"]) }).read();
  expect(await inline.credentials.identity()).toEqual({ token: "abc.def" });
  const text = kubeconfig(goodCluster, ["token: abc", "tokenFile: token"]);
  const both = await nodeWith({ [path]: text, "/etc/kubernetes/token": "from-file\n" }).read();
  expect(await both.credentials.identity()).toEqual({ token: "from-file" });
});

test("accepts JSON and ignores unknown fields", async () => {
  const json = JSON.stringify({
    "current-context": "c",
    contexts: [{ name: "c", context: { cluster: "k", user: "u", extensions: [] } }],
    clusters: [{ name: "k", cluster: { server: "https://h:1", "certificate-authority-data": ca, later: 1 } }],
    users: [{ name: "u", user: {} }],
  });
  const { credentials } = await nodeWith({ [path]: json }).read();
  expect(await credentials.identity()).toEqual({});
});

test("obeys insecure-skip-tls-verify and warns about it", async () => {
  const node = nodeWith({ [path]: kubeconfig([server, "insecure-skip-tls-verify: true"], ["token: t"]) });
  expect(await node.read()).toMatchObject({ insecureSkipTlsVerify: true, certificateAuthority: undefined });
  expect(node.log.takeLines()).toEqual([
    "warn: insecure-skip-tls-verify is set in the kubeconfig: anyone on the network path can impersonate the API server",
  ]);
});

test("runs a plugin with its arguments and environment, and with cluster info if configured", async () => {
  const runs: unknown[] = [];
  const exec: Exec = {
    run(argv, { env = {} }) {
      const { KUBERNETES_EXEC_INFO: given = "", ...others } = env;
      runs.push({ argv, env: others, given: JSON.parse(given) });
      const status = { token: "by-plugin" };
      const apiVersion = "client.authentication.k8s.io/v1";
      return Promise.resolve({ stdout: JSON.stringify({ kind: "ExecCredential", apiVersion, status }), stderr: "" });
    },
  };
  const text = kubeconfig(
    [
      ...goodCluster,
      "extensions:",
      "- {name: client.authentication.k8s.io/exec, extension: {audience: here}}",
      "- {name: other, extension: {x: 1}}",
    ],
    [
      "exec:",
      "  apiVersion: client.authentication.k8s.io/v1",
      "  command: ./bin/login",
      "  args: [get-token, --cluster, a]",
      "  env: [{name: PROFILE, value: node}]",
      "  interactiveMode: Never",
      "  provideClusterInfo: true",
    ],
  );
  const { credentials } = await nodeWith({ [path]: text }, exec).read();
  expect(runs).toEqual([]);
  expect(await credentials.identity()).toEqual({ token: "by-plugin" });
  expect(runs).toEqual([
    {
      argv: ["/etc/kubernetes/bin/login", "get-token", "--cluster", "a"],
      env: { PATH: "/bin", PROFILE: "node" },
      given: {
        kind: "ExecCredential",
        apiVersion: "client.authentication.k8s.io/v1",
        spec: {
          interactive: false,
          cluster: {
            server: "https://10.0.0.1:6443",
            "certificate-authority-data": ca,
            config: { audience: "here" },
          },
        },
      },
    },
  ]);
});

describe("the error names the line and no value of the user:", () => {
  const hidden = "planted-4711";
  const exec = (...lines: string[]) => ["exec:", "  command: login", ...lines.map((line) => `  ${line}`)];
  const v1 = "apiVersion: client.authentication.k8s.io/v1";
  const rows: readonly [what: string, text: string, says: string][] = [
    ["not YAML", `a: [${hidden}\n`, `the kubeconfig cannot be read: ${path}:`],
    ["not a map", "- 1\n", `${path}: is not a kubeconfig: it has no fields`],
    ["an empty file", "", `${path}: is not a kubeconfig: it has no fields`],
    ["another kind", "kind: Pod\n", `${path}: is not a kubeconfig: its kind is not Config`],
    ["another version", "apiVersion: v2\n", `${path}: is not a supported kubeconfig: its apiVersion is not v1`],
    ["no current-context", "apiVersion: v1\n", `${path}:1: the kubeconfig names no current-context`],
    [
      "a context that does not exist",
      "contexts:\n- {name: a}\n- {name: b}\ncurrent-context: c\n",
      `${path}:1: contexts has no "c", only "a", "b"`,
    ],
    ["no contexts", "current-context: c\n", `${path}:1: contexts has no "c", none at all`],
    [
      "two contexts with the same name",
      "current-context: c\ncontexts:\n- name: c\n- name: c\n",
      `${path}:4: contexts has "c" twice`,
    ],
    [
      "a context without cluster",
      "current-context: c\ncontexts:\n- name: c\n  context: {user: u}\n",
      `${path}:4: cluster is missing`,
    ],
    ["no server", kubeconfig([goodCluster[0] ?? ""], []), `${path}:5: server is missing`],
    ["http", kubeconfig(["server: http://10.0.0.1:8080"], []), `${path}:6: server is not an address such as https://`],
    ["a server that is not a URL", kubeconfig(["server: 10.0.0.1:6443"], []), `${path}:6: server is not an address`],
    ["no authority", kubeconfig([server], []), `${path}:5: the cluster has neither certificate-authority-data nor`],
    [
      "a CA together with insecure-skip-tls-verify",
      kubeconfig([...goodCluster, "insecure-skip-tls-verify: true"], []),
      `${path}:5: insecure-skip-tls-verify and a certificate-authority are set`,
    ],
    [
      "a CA that is not base64",
      kubeconfig([server, `certificate-authority-data: ${hidden}!`], []),
      `certificate-authority-data (${path}:7) is not base64`,
    ],
    [
      "a CA that is not a certificate",
      kubeconfig([server, `certificate-authority-data: ${base64(hidden)}`], []),
      `certificate-authority-data (${path}:7) contains no certificate in PEM format`,
    ],
    [
      "a proxy",
      kubeconfig([...goodCluster, "proxy-url: http://p:1"], []),
      `${path}:8: proxy-url: proxies are not supported`,
    ],
    [
      "auth-provider",
      kubeconfig(goodCluster, ["auth-provider: {name: gcp}"]),
      `${path}:16: auth-provider: Kubernetes has removed auth-provider: use exec`,
    ],
    [
      "a password",
      kubeconfig(goodCluster, ["username: u", `password: ${hidden}`]),
      `${path}:16: username: API servers accept no passwords since 1.19`,
    ],
    [
      "impersonation",
      kubeconfig(goodCluster, ["token: t", "as: admin"]),
      `${path}:17: as: impersonation is not supported`,
    ],
    [
      "a certificate without a key",
      kubeconfig(goodCluster, [`client-certificate-data: ${base64(ours.cert)}`]),
      `${path}:15: the user has only one of client-certificate and client-key`,
    ],
    [
      "a token that is not a string",
      kubeconfig(goodCluster, ["token: 4711"]),
      `${path}:16: token is not a string; quote it`,
    ],
    [
      "exec together with a token",
      kubeconfig(goodCluster, [...exec(v1, "interactiveMode: Never"), "token: t"]),
      `${path}:15: the user has exec and other credentials`,
    ],
    [
      "exec with an older apiVersion",
      kubeconfig(goodCluster, exec("apiVersion: client.authentication.k8s.io/v1alpha1")),
      `${path}:18: exec has an apiVersion other than`,
    ],
    [
      "exec that requires a terminal",
      kubeconfig(goodCluster, exec(v1, "interactiveMode: Always")),
      `${path}:19: exec requires a terminal`,
    ],
    [
      "exec without interactiveMode",
      kubeconfig(goodCluster, exec(v1)),
      `${path}:16: interactiveMode must be Never or IfAvailable`,
    ],
    [
      "exec arguments that are not strings",
      kubeconfig(goodCluster, exec(v1, "interactiveMode: Never", "args: [1]")),
      `${path}:20: args has an entry that is not a string`,
    ],
  ];
  for (const [what, text, says] of rows)
    test(what, async () => {
      const error = await failureOf(nodeWith({ [path]: text }).source());
      expect(error.message).toStartWith(says);
      expect(error.code).toBe("CREDENTIALS");
      expect(Bun.inspect(error, { depth: 20 }).replaceAll(text, "")).not.toContain(hidden);
    });

  test("a kubeconfig that does not exist", async () => {
    const error = await failureOf(nodeWith({}).source());
    expect(error.message).toBe(
      `the kubeconfig cannot be read: ${path} does not exist; without --kubeconfig the node runs standalone`,
    );
  });
});

describe("while the agent runs", () => {
  const second = createCertificateAuthority("kubernetes");
  const inToken = (token: string) => kubeconfig(goodCluster, [`token: ${token}`]);
  const tokenOf = async ({ credentials }: ClusterEndpoint) => (await credentials.identity()).token;

  async function following(files: Readonly<Record<string, string>>) {
    const { source, root, clock, log } = nodeWith(files);
    const { server: serverNow, latest } = await source();
    const put = async (name: string, text: string) => {
      await root.write(name, text, 0o600);
      await clock.advance(1000);
    };
    return { latest, serverNow, put, log, remove: (name: string) => root.remove(name), clock };
  }

  test("a replaced kubeconfig is used; a broken or missing one leaves the previous one in use, which is logged once", async () => {
    const { latest, serverNow, put, remove, clock, log } = await following({ [path]: inToken("one") });
    const before = await latest();
    for (const text of ["apiVersion: v1\nkind: Con", "", inToken("one").replace("server:", "serv:")]) {
      await put(path, text);
      for (let count = 0; count < 3; count += 1) expect(await latest()).toBe(before);
    }
    await remove(path);
    await clock.advance(1000);
    expect(await latest()).toBe(before);
    expect(log.takeLines().map((line) => line.replace("; keeping what was read before: ", " "))).toEqual([
      `warn: the kubeconfig cannot be used ${path}: is not a kubeconfig: its kind is not Config`,
      `warn: the kubeconfig cannot be used ${path}: is not a kubeconfig: it has no fields`,
      `warn: the kubeconfig cannot be used ${path}:5: server is missing`,
      `warn: the kubeconfig cannot be used the kubeconfig cannot be read: ${path} does not exist; without --kubeconfig the node runs standalone`,
    ]);

    await put(path, inToken("two").replace("10.0.0.1", "10.0.0.2"));
    expect([await tokenOf(await latest()), serverNow().host]).toEqual(["two", "10.0.0.2:6443"]);
    expect(log.takeLines()).toEqual(["info: the kubeconfig can be used again"]);
  });

  test("touching the kubeconfig changes neither the endpoint nor the credentials", async () => {
    const { latest, put } = await following({ [path]: inToken("one") });
    const before = await latest();
    await put(path, inToken("one"));
    expect(await latest()).toBe(before);
    await put(path, `# a comment\n${inToken("one")}`);
    const { credentials, ...rest } = await latest();
    const { credentials: _, ...restBefore } = before;
    expect(rest).toEqual(restBefore);
    expect(await credentials.identity()).toEqual({ token: "one" });
  });

  test("a kubeconfig whose credentials cannot be read yet takes effect when they can", async () => {
    const { latest, put } = await following({ [path]: inToken("one") });
    const before = await latest();
    await put(path, kubeconfig(goodCluster, ["tokenFile: token"]));
    expect(await latest()).toBe(before);
    await put("/etc/kubernetes/token", "two");
    expect(await tokenOf(await latest())).toBe("two");
  });

  test("a changed CA file is used, and the credentials stay the same", async () => {
    const text = kubeconfig([server, "certificate-authority: ca.crt"], ["token: one"]);
    const { latest, put } = await following({ [path]: text, "/etc/kubernetes/ca.crt": authority.cert });
    const before = await latest();
    await put("/etc/kubernetes/ca.crt", second.cert.slice(0, 100));
    expect(await latest()).toBe(before);
    await put("/etc/kubernetes/ca.crt", second.cert);
    const after = await latest();
    expect(after).toEqual({ ...before, certificateAuthority: second.cert });
    expect(after.credentials).toBe(before.credentials);
  });

  test("a CA file may appear after the kubeconfig, also the file that a changed kubeconfig names", async () => {
    const named = (file: string) => kubeconfig([server, `certificate-authority: ${file}`], ["token: one"]);
    const { latest, put } = await following({ [path]: named("ca.crt") });
    expect((await failureOf(latest())).message).toBe(
      `/etc/kubernetes/ca.crt does not exist: certificate-authority (${path}:7) refers to it; create it with read permission, or configure another file`,
    );
    await put("/etc/kubernetes/ca.crt", authority.cert);
    expect((await latest()).certificateAuthority).toBe(authority.cert);
    await put("/etc/kubernetes/new.crt", second.cert);
    await put(path, named("new.crt"));
    expect((await latest()).certificateAuthority).toBe(second.cert);
    await put("/etc/kubernetes/new.crt", authority.cert);
    expect((await latest()).certificateAuthority).toBe(authority.cert);
  });
});

async function failureOf(work: Promise<unknown>): Promise<KubeError> {
  try {
    await work;
  } catch (error) {
    if (error instanceof KubeError) return error;
    throw error;
  }
  throw new Error("it succeeded");
}
