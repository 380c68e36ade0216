import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { once } from "node:events";
import { join } from "node:path";
import type { Node as NodeObject, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { createApiClient } from "../../fakes/api-client.ts";
import { createCertificateAuthority, type KeyPair } from "../../upstream/pki.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { linesContaining } from "../node.ts";
import { barePod } from "./api-objects.ts";
import { areContainersReady, type ClusterNode, startClusterNode } from "./node.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("the node's API");

/** What a user may do with which subresources of nodes. */
const rights: Readonly<Record<string, readonly (readonly [verb: string, subresource: string])[]>> = {
  nothing: [],
  metrics: [["get", "nodes/metrics"]],
  stats: [["get", "nodes/stats"]],
  pods: [["get", "nodes/pods"]],
  healthz: [["get", "nodes/healthz"]],
  configz: [["get", "nodes/configz"]],
  log: [["get", "nodes/log"]],
  statusz: [["get", "nodes/statusz"]],
  checkpoint: [["create", "nodes/checkpoint"]],
  "proxy-reader": [["get", "nodes/proxy"]],
  "proxy-creator": [["create", "nodes/proxy"]],
};

/** Its answer takes seconds, in which the agent stands still. */
const HEAP = "/debug/pprof/heap";

/** The endpoints, and which of the users above may get them. */
const endpoints: readonly (readonly [path: string, allowed: readonly string[]])[] = [
  ["/healthz", ["healthz", "proxy-reader"]],
  ["/healthz/syncloop", ["healthz", "proxy-reader"]],
  ["/pods", ["pods", "proxy-reader"]],
  ["/runningpods/", ["pods", "proxy-reader"]],
  ["/configz", ["configz", "proxy-reader"]],
  ["/flagz", ["configz"]],
  ["/statusz", ["statusz"]],
  ["/metrics", ["metrics"]],
  ["/metrics/cadvisor", ["metrics"]],
  ["/metrics/resource", ["metrics"]],
  ["/metrics/probes", ["metrics"]],
  ["/metrics/slis", ["metrics"]],
  ["/stats/summary", ["stats"]],
  ["/logs/", ["log"]],
  ["/containerLogs/default/web/app", ["proxy-reader"]],
  ["/debug/pprof/", ["proxy-reader"]],
  // These need the verb create, also by GET.
  ["/exec/default/web/app?command=true&output=1", ["proxy-creator"]],
  ["/attach/default/web/app?output=1", ["proxy-creator"]],
  ["/portForward/default/web", ["proxy-creator"]],
  [HEAP, ["proxy-creator"]],
];

const upgrades: Readonly<Record<string, string>> = {
  // The runtime selects its protocol: of exec and attach, or of port-forward.
  SPDY: "connection: Upgrade\r\nupgrade: SPDY/3.1\r\nx-stream-protocol-version: v4.channel.k8s.io\r\nx-stream-protocol-version: portforward.k8s.io",
  WebSocket:
    "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: v5.channel.k8s.io",
};

/** Asks for another protocol, and returns the status of the answer. `headers`: lines. */
async function statusOfUpgrade(
  client: ReturnType<typeof createApiClient>,
  path: string,
  headers: string,
): Promise<number> {
  const socket = await client.openSocket(`GET ${path} HTTP/1.1\r\nhost: node\r\n${headers}\r\n\r\n`);
  try {
    const [answer] = (await once(socket, "data")) as [Buffer];
    return Number(answer.toString().split(" ")[1]);
  } finally {
    socket.destroy();
  }
}

describe.skipIf(skip !== undefined)("the API of a node of a cluster", () => {
  let cluster: ClusterNode;
  let port: number;
  beforeAll(async () => {
    cluster = await startClusterNode(undefined, { logging: { verbosity: 10 } });
    await cluster.create([barePod("web", { name: "app", command: ["sh", "-c", "echo hello; exec sleep 1000"] })]);
    const items = Object.entries(rights).flatMap(([user, rules]) => roleOf(user, rules));
    const input = JSON.stringify({ apiVersion: "v1", kind: "List", items });
    await cluster.plane.kubectl(["create", "--filename=-"], { input });
    await cluster.waitForPods("run", "web", (pods) => pods.length > 0 && pods.every(areContainersReady));
    port = (await nodeObject()).status?.daemonEndpoints?.kubeletEndpoint?.Port ?? 0;
  }, BUILD_TIMEOUT_MS);
  afterAll(() => cluster?.tearDown());

  const kubectl = (...args: readonly string[]) => cluster.kubectl(...args);
  const nodeObject = async () => JSON.parse(await kubectl("get", "node", "node-a", "--output=json")) as NodeObject;
  const proxied = (path: string) => kubectl("get", "--raw", `/api/v1/nodes/node-a/proxy${path}`);
  const certificate = (commonName: string, organizations: readonly string[] = []): KeyPair =>
    cluster.plane.authority.issue({ commonName, organizations });
  const clientOf = (credentials: { readonly pair?: KeyPair; readonly token?: string }) =>
    createApiClient({ port, ca: undefined, ...credentials });

  test("kubectl reaches the node through the API server", async () => {
    expect(await proxied("/healthz")).toBe("ok");
    const pods = JSON.parse(await proxied("/pods")) as { readonly items: readonly Pod[] };
    expect(pods.items.map(({ metadata, status }) => [metadata.name, status?.phase])).toEqual([["web", "Running"]]);
    expect(JSON.parse(await proxied("/runningpods/"))).toMatchObject({ items: [{ metadata: { name: "web" } }] });
    expect(JSON.parse(await proxied("/configz"))).toMatchObject({ kubeletconfig: { port } });
    expect(await proxied("/statusz")).toContain("Binary version: 1.36");
    expect(await kubectl("logs", "web")).toBe("hello");
    expect(await kubectl("exec", "web", "--", "echo", "from", "inside")).toBe("from inside");
  });

  test.each([
    ["no credentials", {}],
    ["a bad token", { token: "guessed" }],
    [
      "a certificate of another CA",
      { pair: createCertificateAuthority("other").issue({ commonName: "admin", organizations: ["system:masters"] }) },
    ],
  ])("%s gets 401 everywhere, also for an upgrade", async (_name, credentials) => {
    for (const [path] of endpoints) {
      const { status, text } = await clientOf(credentials).get(path);
      expect([path, status, text]).toEqual([path, 401, "Unauthorized"]);
      for (const [protocol, headers] of Object.entries(upgrades)) {
        const upgraded = await statusOfUpgrade(clientOf(credentials), path, headers);
        expect([path, protocol, upgraded]).toEqual([path, protocol, 401]);
      }
    }
  });

  test.each([
    ["an expired certificate", -2, -1],
    ["a certificate that is not valid yet", 1, 2],
  ])("%s gets 401", async (_name, fromHours, toHours) => {
    const after = (hours: number) => new Date(Date.now() + hours * 3_600_000);
    const validity = { validFrom: after(fromHours), validTo: after(toHours) };
    const masters = { commonName: "admin", organizations: ["system:masters"] };
    const client = clientOf({ pair: cluster.plane.authority.issue({ ...masters, ...validity }) });
    expect((await client.get("/healthz")).status).toBe(401);
    expect(await statusOfUpgrade(client, "/exec/default/web/app?command=true&output=1", upgrades["SPDY"] ?? "")).toBe(
      401,
    );
  });

  test("each subresource gives access to its endpoints, and to no others", async () => {
    for (const user of Object.keys(rights)) {
      const client = clientOf({ pair: certificate(user) });
      for (const [path, allowed] of endpoints) {
        const { status, text } = await client.get(path);
        const isAllowed = status !== 401 && status !== 403;
        expect([user, path, isAllowed]).toEqual([user, path, allowed.includes(user)]);
        if (!isAllowed) expect(text).toStartWith(`Forbidden (user=${user}, verb=`);
        if (isAllowed && path === HEAP) continue;
        for (const [protocol, headers] of Object.entries(upgrades)) {
          const isUpgradeAllowed = ![401, 403].includes(await statusOfUpgrade(client, path, headers));
          expect([user, path, protocol, isUpgradeAllowed]).toEqual([user, path, protocol, isAllowed]);
        }
      }
    }
  });

  test("an administrator may use everything", async () => {
    const client = clientOf({ pair: certificate("admin", ["system:masters"]) });
    for (const [path] of endpoints)
      expect([path, [401, 403].includes((await client.get(path)).status)]).toEqual([path, false]);
  });

  test("a reader of nodes/proxy cannot run a command, neither by GET nor by POST nor by an upgrade", async () => {
    const client = clientOf({ pair: certificate("proxy-reader") });
    const path = "/exec/default/web/app?command=true&output=1";
    for (const headers of [
      {},
      { connection: "Upgrade", upgrade: "SPDY/3.1" },
      { connection: "Upgrade", upgrade: "websocket" },
    ])
      for (const method of ["GET", "POST"]) {
        const { status, text } = await client.request(method, path, headers);
        expect([method, status, text]).toEqual([
          method,
          403,
          "Forbidden (user=proxy-reader, verb=create, resource=nodes, subresource(s)=[proxy])\n",
        ]);
      }
  });

  test("a token of a service account has the rights of the account", async () => {
    await kubectl("create", "serviceaccount", "scraper");
    const token = await kubectl("create", "token", "scraper");
    const client = clientOf({ token });
    const refused = await client.get("/metrics");
    expect([refused.status, refused.text]).toEqual([
      403,
      "Forbidden (user=system:serviceaccount:default:scraper, verb=get, resource=nodes, subresource(s)=[metrics])\n",
    ]);
    await kubectl(
      "create",
      "clusterrolebinding",
      "scraper",
      "--clusterrole=metrics",
      "--serviceaccount=default:scraper",
    );
    // The refusal is kept for half a minute, also for the next token if the API server has not seen the new role in time.
    const next = clientOf({ token: await kubectl("create", "token", "scraper", "--duration=11m") });
    await pollUntil("metrics for the new role", 45_000, async () => (await next.get("/metrics")).status === 200);
    expect((await next.get("/pods")).status).toBe(403);
  });

  test("while the API server is away, known users are served, and others are not let in", async () => {
    const known = clientOf({ pair: certificate("metrics") });
    expect((await known.get("/metrics")).status).toBe(200);
    await cluster.plane.stopApiServer();
    try {
      expect((await known.get("/metrics")).status).toBe(200);
      const unknown = await clientOf({ pair: certificate("unknown-user") }).get("/metrics");
      expect([unknown.status, unknown.text]).toEqual([
        500,
        "Authorization error (user=unknown-user, verb=get, resource=nodes, subresource=metrics)",
      ]);
      expect((await clientOf({ token: "hunter2-away" }).get("/metrics")).status).toBe(401);
    } finally {
      await cluster.plane.startApiServer();
    }
  });

  test("at -v 10 the log has no token, command or query of a client, also of requests that fail", async () => {
    const exec = "/exec/default/web/app?command=echo&output=1";
    const admin = clientOf({ pair: certificate("admin", ["system:masters"]) });
    const encoded = Buffer.from("hunter2-protocol").toString("base64url");
    const token = await kubectl("create", "token", "default");
    for (const sent of [token, "hunter2-header"]) await clientOf({ token: sent }).get("/metrics?a=hunter2-query");
    const withToken = `${upgrades["WebSocket"]}, base64url.bearer.authorization.k8s.io.${encoded}`;
    expect(await statusOfUpgrade(clientOf({}), `${exec}&command=hunter2-argument`, withToken)).toBe(401);
    expect(await kubectl("exec", "web", "--", "echo", "hunter2-command")).toBe("hunter2-command");
    await expect(kubectl("exec", "web", "--", "hunter2-program")).rejects.toThrow("hunter2-program");
    await clientOf({ pair: certificate("nothing") }).get(`${exec}&command=hunter2-refused`);
    await admin.get(`/exec/default/none/app?command=hunter2-pod&output=1`);
    for (const [path, status] of [
      ["/run/default/web/app?cmd=echo%20hunter2-run", 200],
      ["/run/default/web/app?cmd=hunter2-missing", 500],
      ["/none?token=hunter2-path", 404],
      ["/logs/?query=hunter2-service", 405],
    ] as const)
      expect([path, (await admin.request("POST", path)).status]).toEqual([path, status]);
    for (const headers of Object.values(upgrades))
      await statusOfUpgrade(admin, `${exec}&command=hunter2-upgrade`, headers);

    const log = await cluster.node.log();
    expect(linesContaining(log, "debug").length).toBeGreaterThan(20);
    const [, , signature = "no token"] = token.split(".");
    for (const secret of ["hunter2", encoded, signature]) expect(linesContaining(log, secret)).toEqual([]);
    // The runtime's URL of a session is a credential, too.
    expect(log.split("\n").filter((line) => /\/(exec|attach|portforward)\/[\w-]{8}/.test(line))).toEqual([]);
  });

  test("where anonymous requests are allowed they have the rights of system:anonymous, and bad credentials have none", async () => {
    await kubectl("create", "clusterrolebinding", "anonymous", "--clusterrole=healthz", "--user=system:anonymous");
    const x509 = { clientCAFile: join(cluster.node.folder, "client-ca.crt") };
    await cluster.node.agent.stop();
    await cluster.node.startAgent({ authentication: { anonymous: { enabled: true }, x509 } });
    const anonymous = clientOf({});
    await pollUntil("the node's API", 30_000, async () => (await anonymous.get("/healthz")).status === 200);
    for (const [path, allowed] of endpoints) {
      const { status, text } = await anonymous.get(path);
      expect([path, status]).toEqual([path, allowed.includes("healthz") ? 200 : 403]);
      if (status === 403) expect(text).toStartWith("Forbidden (user=system:anonymous, verb=");
      for (const [protocol, headers] of Object.entries(upgrades)) {
        const upgraded = await statusOfUpgrade(anonymous, path, headers);
        expect([path, protocol, upgraded]).toEqual([path, protocol, status]);
      }
      expect([path, (await clientOf({ token: "guessed" }).get(path)).status]).toEqual([path, 401]);
    }
  });
});

function roleOf(user: string, rules: readonly (readonly [verb: string, subresource: string])[]) {
  const apiVersion = "rbac.authorization.k8s.io/v1";
  return [
    {
      apiVersion,
      kind: "ClusterRole",
      metadata: { name: user },
      rules: rules.map(([verb, resource]) => ({ apiGroups: [""], resources: [resource], verbs: [verb] })),
    },
    {
      apiVersion,
      kind: "ClusterRoleBinding",
      metadata: { name: user },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: user },
      subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: user }],
    },
  ];
}
