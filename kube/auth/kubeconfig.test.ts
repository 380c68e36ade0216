import { describe, expect, test } from "bun:test";
import type { Exec } from "../../host/exec.ts";
import { FakeClock } from "../../test/fakes/clock.ts";
import { FakeDisk } from "../../test/fakes/files.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { createAuthority } from "../../test/upstream/pki.ts";
import { KubeError } from "../error.ts";
import type { Cluster, ClusterSource } from "./cluster-endpoint.ts";
import { readKubeconfig } from "./kubeconfig.ts";

const authority = createAuthority("kubernetes");
const ours = authority.issue({ commonName: "system:node:a" });
const base64 = (text: string) => Buffer.from(text).toString("base64");
const ca = base64(authority.cert);

const path = "/etc/kubernetes/kubelet.conf";

/** A kubeconfig in the form of kubeadm's; `cluster` and `user` are lines of YAML. */
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
  const source = async (): Promise<ClusterSource> => {
    await ready;
    const none: Exec = { run: () => Promise.reject(new Error("nothing is to be run")) };
    return await readKubeconfig({ path, files: root, exec: exec ?? none, environment: { PATH: "/bin" }, clock, log });
  };
  const read = async (): Promise<Cluster> => (await source()).latest();
  return { source, read, log, clock, root };
}

test("inline credentials, as kubeadm writes them for an administrator", async () => {
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

test("files of credentials, relative to the kubeconfig and absolute, key and certificate in one", async () => {
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

test("a token, and a tokenFile that goes before it", async () => {
  const inline = await nodeWith({ [path]: kubeconfig(goodCluster, ["token: abc.def"]) }).read();
  expect(await inline.credentials.identity()).toEqual({ token: "abc.def" });
  const text = kubeconfig(goodCluster, ["token: abc", "tokenFile: token"]);
  const both = await nodeWith({ [path]: text, "/etc/kubernetes/token": "from-file\n" }).read();
  expect(await both.credentials.identity()).toEqual({ token: "from-file" });
});

test("JSON is a kubeconfig too, and unknown fields are left alone", async () => {
  const json = JSON.stringify({
    "current-context": "c",
    contexts: [{ name: "c", context: { cluster: "k", user: "u", extensions: [] } }],
    clusters: [{ name: "k", cluster: { server: "https://h:1", "certificate-authority-data": ca, later: 1 } }],
    users: [{ name: "u", user: {} }],
  });
  const { credentials } = await nodeWith({ [path]: json }).read();
  expect(await credentials.identity()).toEqual({});
});

test("insecure-skip-tls-verify is obeyed, and said", async () => {
  const node = nodeWith({ [path]: kubeconfig([server, "insecure-skip-tls-verify: true"], ["token: t"]) });
  expect(await node.read()).toMatchObject({ insecureSkipTlsVerify: true, certificateAuthority: undefined });
  expect(node.log.told()).toEqual([
    "warn: insecure-skip-tls-verify is set in the kubeconfig: whoever is in between can pose as the API server",
  ]);
});

test("a plugin is run with its arguments and environment, and told of the cluster if it is to be", async () => {
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

describe("is refused with its line, and without a value of the user:", () => {
  const hidden = "planted-4711";
  const exec = (...lines: string[]) => ["exec:", "  command: login", ...lines.map((line) => `  ${line}`)];
  const v1 = "apiVersion: client.authentication.k8s.io/v1";
  const rows: readonly [what: string, text: string, says: string][] = [
    ["no YAML", `a: [${hidden}\n`, `the kubeconfig cannot be read: ${path}:`],
    ["no map", "- 1\n", `${path}: is no kubeconfig: it holds no fields`],
    ["nothing", "", `${path}: is no kubeconfig: it holds no fields`],
    ["another kind", "kind: Pod\n", `${path}: is no kubeconfig: its kind is not Config`],
    ["another version", "apiVersion: v2\n", `${path}: is no kubeconfig that we know: its apiVersion is not v1`],
    ["no current-context", "apiVersion: v1\n", `${path}:1: the kubeconfig names no current-context`],
    [
      "a context that is not there",
      "contexts:\n- {name: a}\n- {name: b}\ncurrent-context: c\n",
      `${path}:1: contexts has no "c", only "a", "b"`,
    ],
    ["no contexts", "current-context: c\n", `${path}:1: contexts has no "c", none at all`],
    [
      "two contexts of a name",
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
    ["a server that is no address", kubeconfig(["server: 10.0.0.1:6443"], []), `${path}:6: server is not an address`],
    ["no authority", kubeconfig([server], []), `${path}:5: the cluster has neither certificate-authority-data nor`],
    [
      "authority and no verification",
      kubeconfig([...goodCluster, "insecure-skip-tls-verify: true"], []),
      `${path}:5: insecure-skip-tls-verify and a certificate-authority are set`,
    ],
    [
      "an authority that is no base64",
      kubeconfig([server, `certificate-authority-data: ${hidden}!`], []),
      `certificate-authority-data (${path}:7) is not base64`,
    ],
    [
      "an authority that is no certificate",
      kubeconfig([server, `certificate-authority-data: ${base64(hidden)}`], []),
      `certificate-authority-data (${path}:7) holds no certificate in PEM form`,
    ],
    [
      "a proxy",
      kubeconfig([...goodCluster, "proxy-url: http://p:1"], []),
      `${path}:8: proxy-url: proxies are not supported`,
    ],
    [
      "auth-provider",
      kubeconfig(goodCluster, ["auth-provider: {name: gcp}"]),
      `${path}:16: auth-provider: Kubernetes has no auth-provider any more: use exec`,
    ],
    [
      "a password",
      kubeconfig(goodCluster, ["username: u", `password: ${hidden}`]),
      `${path}:16: username: no API server knows passwords any more`,
    ],
    [
      "impersonation",
      kubeconfig(goodCluster, ["token: t", "as: admin"]),
      `${path}:17: as: impersonation is not supported`,
    ],
    [
      "half a certificate",
      kubeconfig(goodCluster, [`client-certificate-data: ${base64(ours.cert)}`]),
      `${path}:15: the user has only one of client-certificate and client-key`,
    ],
    [
      "a token that is no text",
      kubeconfig(goodCluster, ["token: 4711"]),
      `${path}:16: token is not a text; put it in quotes`,
    ],
    [
      "exec beside a token",
      kubeconfig(goodCluster, [...exec(v1, "interactiveMode: Never"), "token: t"]),
      `${path}:15: the user has exec and other credentials`,
    ],
    [
      "exec of an older version",
      kubeconfig(goodCluster, exec("apiVersion: client.authentication.k8s.io/v1alpha1")),
      `${path}:18: exec has another apiVersion than`,
    ],
    [
      "exec on a terminal",
      kubeconfig(goodCluster, exec(v1, "interactiveMode: Always")),
      `${path}:19: exec wants a terminal`,
    ],
    [
      "exec without a word on that",
      kubeconfig(goodCluster, exec(v1)),
      `${path}:16: interactiveMode has to be Never or IfAvailable`,
    ],
    [
      "exec's arguments that are no texts",
      kubeconfig(goodCluster, exec(v1, "interactiveMode: Never", "args: [1]")),
      `${path}:20: args holds something that is no text`,
    ],
  ];
  for (const [what, text, says] of rows)
    test(what, async () => {
      const error = await failureOf(nodeWith({ [path]: text }).source());
      expect(error.message).toStartWith(says);
      expect(error.code).toBe("CREDENTIALS");
      expect(Bun.inspect(error, { depth: 20 }).replaceAll(text, "")).not.toContain(hidden);
    });

  test("a kubeconfig that is not there", async () => {
    const error = await failureOf(nodeWith({}).source());
    expect(error.message).toBe(
      `the kubeconfig cannot be read: ${path} does not exist; without --kubeconfig the node stands alone`,
    );
  });
});

describe("while the agent runs", () => {
  const second = createAuthority("kubernetes");
  const inToken = (token: string) => kubeconfig(goodCluster, [`token: ${token}`]);
  const tokenOf = async ({ credentials }: Cluster) => (await credentials.identity()).token;

  async function following(files: Readonly<Record<string, string>>) {
    const { source, root, clock, log } = nodeWith(files);
    const { server: serverNow, latest } = await source();
    const put = async (name: string, text: string) => {
      await root.write(name, text, 0o600);
      await clock.advance(1000);
    };
    return { latest, serverNow, put, log, remove: (name: string) => root.remove(name), clock };
  }

  test("another kubeconfig in its place is taken up; a broken one or none leaves what was read, which is said once", async () => {
    const { latest, serverNow, put, remove, clock, log } = await following({ [path]: inToken("one") });
    const before = await latest();
    for (const text of ["apiVersion: v1\nkind: Con", "", inToken("one").replace("server:", "serv:")]) {
      await put(path, text);
      for (let count = 0; count < 3; count += 1) expect(await latest()).toBe(before);
    }
    await remove(path);
    await clock.advance(1000);
    expect(await latest()).toBe(before);
    expect(log.told().map((line) => line.replace(/and what was read before stays: /, ""))).toEqual([
      `warn: the kubeconfig cannot be used any more, ${path}: is no kubeconfig: its kind is not Config`,
      `warn: the kubeconfig cannot be used any more, ${path}: is no kubeconfig: it holds no fields`,
      `warn: the kubeconfig cannot be used any more, ${path}:5: server is missing`,
      `warn: the kubeconfig cannot be used any more, the kubeconfig cannot be read: ${path} does not exist; without --kubeconfig the node stands alone`,
    ]);

    await put(path, inToken("two").replace("10.0.0.1", "10.0.0.2"));
    expect([await tokenOf(await latest()), serverNow().host]).toEqual(["two", "10.0.0.2:6443"]);
    expect(log.told()).toEqual(["info: the kubeconfig can be used again"]);
  });

  test("one that was only touched changes nothing, nor for its user", async () => {
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

  test("one whose user cannot be had yet waits until it can", async () => {
    const { latest, put } = await following({ [path]: inToken("one") });
    const before = await latest();
    await put(path, kubeconfig(goodCluster, ["tokenFile: token"]));
    expect(await latest()).toBe(before);
    await put("/etc/kubernetes/token", "two");
    expect(await tokenOf(await latest())).toBe("two");
  });

  test("the file of its authority is taken up when it changes, and the user stays", async () => {
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

  test("the file of its authority may come later than it, and so may another one's that it names then", async () => {
    const named = (file: string) => kubeconfig([server, `certificate-authority: ${file}`], ["token: one"]);
    const { latest, put } = await following({ [path]: named("ca.crt") });
    expect((await failureOf(latest())).message).toBe(
      `/etc/kubernetes/ca.crt does not exist: certificate-authority (${path}:7) names it; put it there, readable, or name another`,
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
