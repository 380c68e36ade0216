import { type KnownApiDifference, type PartValues, SHOWN } from "./compare-answers.ts";

/*
 * Where the answers of Berth's API differ from those of the reference kubelet, and why.
 */

const EXEC = "/exec/default/web/app?command=true&output=1";
const OTHER_POD = "/exec/default/web/11111111-2222-3333-4444-555555555555/app?command=true&output=1";
const OLD_WEBSOCKET = `GET ${EXEC} (upgrade websocket, sec-websocket-version 12, sec-websocket-protocol v5.channel.k8s.io)`;
const FILE = "GET /logs/berth-api-cases/file.txt";
const PODS = ["GET /pods", "GET /pods (accept text/html, application/json;q=0.1)", "GET /pods/", "GET /%70ods"];
const CONFIGZ = ["GET /configz", "POST /configz"];

const TEXT = "text/plain; charset=utf-8";
const UPGRADE_REQUIRED = "Upgrade request required\n";
const NEEDS_CREATE_OF_PROXY_READER =
  "Forbidden (user=proxy-reader, verb=create, resource=nodes, subresource(s)=[proxy])\n";

/** What `/healthz` says of the checks that both have. */
const CHECKS = "[+]ping ok\n[+]log ok\n[+]syncloop ok\n";
const NOT_EXCLUDED = 'warn: some health checks cannot be excluded: no matches for "none"\n';

/** The page of the folder of the cases, whose first file has an ampersand in its link. */
const page = (link: string) =>
  [
    "<!doctype html>",
    '<meta name="viewport" content="width=device-width">',
    "<pre>",
    `<a href="${link}">a&amp;b &lt;c&gt;.log</a>`,
    '<a href="empty/">empty/</a>',
    '<a href="file.txt">file.txt</a>',
    "</pre>\n",
  ].join("\n");

/** The index of the profiles. */
const PROFILES = `/debug/pprof/

heap              a heap snapshot of V8's format (.heapsnapshot), for Chrome's developer tools; needs the verb create.
                  The agent stands still while it is taken: seconds for a large heap
profile?seconds=N a CPU profile (.cpuprofile) of N seconds, 30 by default
`;

/** The same values in several fields. */
const fields = (values: PartValues, ...paths: readonly string[]) =>
  Object.fromEntries(paths.map((path) => [`field ${path}`, values]));

const ofConfiguration = (field: string) => `kubeletconfig.${field}`;

/** Fields of KubeletConfiguration that are empty on this node, by what Berth shows there. */
const EMPTY_FIELDS = {
  booleans: [
    "enableContentionProfiling",
    "kernelMemcgNotification",
    "logging.options.json.splitStream",
    "logging.options.text.splitStream",
    "protectKernelDefaults",
    "rotateCertificates",
    "runOnce",
    "serverTLSBootstrap",
  ].map(ofConfiguration),
  numbers: ["evictionMaxPodGracePeriod", "podsPerCore", "readOnlyPort"].map(ofConfiguration),
  strings: [
    "cgroupRoot",
    "imageServiceEndpoint",
    "kubeReservedCgroup",
    "kubeletCgroups",
    "memorySwap.swapBehavior",
    "podCIDR",
    "providerID",
    "reservedSystemCPUs",
    "showHiddenMetricsForVersion",
    "staticPodURL",
    "systemCgroups",
    "systemReservedCgroup",
    "tlsMinVersion",
  ].map(ofConfiguration),
};

export const knownApiDifferences: readonly KnownApiDifference[] = [
  {
    reason: "the right to read nodes/proxy gives no right to run commands: these need create (KEP-2862)",
    names: [`GET ${EXEC} (no rights)`],
    parts: {
      body: {
        kubelet: "Forbidden (user=no-rights, verb=get, resource=nodes, subresource(s)=[proxy])\n",
        berth: "Forbidden (user=no-rights, verb=create, resource=nodes, subresource(s)=[proxy])\n",
      },
    },
  },
  {
    reason:
      "the right to read nodes/proxy gives no right to run commands or to reach ports: these need create (KEP-2862)",
    names: [`GET ${EXEC} (proxy reader)`, "GET /portForward/default/web (proxy reader)"],
    parts: {
      status: { kubelet: "500", berth: "403" },
      "header x-content-type-options": { kubelet: "nosniff" },
      body: { kubelet: UPGRADE_REQUIRED, berth: NEEDS_CREATE_OF_PROXY_READER },
    },
  },
  {
    reason: "the uid of a session is another pod's: Berth opens no session with the pod that has its name now",
    names: [`GET ${OTHER_POD}`],
    parts: {
      "header x-content-type-options": { kubelet: "nosniff" },
      body: { kubelet: UPGRADE_REQUIRED, berth: 'container not found ("app")' },
    },
  },
  {
    reason: "Berth checks the handshake of a WebSocket that it translates; the kubelet forwards it to the runtime",
    names: [OLD_WEBSOCKET],
    parts: {
      "header connection": { berth: "close" },
      "header content-type": { berth: TEXT },
      body: {
        kubelet: "missing or bad WebSocket Version",
        berth: "the WebSocket version must be 13 (header Sec-WebSocket-Version)",
      },
    },
  },
  {
    reason: "the kubelet sends an answer in chunks before its first byte is known, without a type",
    names: [
      "GET /containerLogs/default/waits/app",
      "GET /containerLogs/default/initializes/app",
      "GET /containerLogs/default/web/app?previous=true",
      "GET /containerLogs/default/waits/app?previous=true",
      "GET /containerLogs/default/web/app?previous=maybe",
    ],
    parts: { "header content-type": { berth: TEXT } },
  },
  {
    reason: "Berth keeps no managedFields, and leaves lastProbeTime out, which no kubelet sets",
    names: PODS,
    parts: fields(
      { kubelet: SHOWN },
      "items[].status.conditions[].lastProbeTime",
      ...["apiVersion", "fieldsType", "manager", "operation", "time"].map(
        (field) => `items[].metadata.managedFields[].${field}`,
      ),
    ),
  },
  {
    reason: "Berth serves no device plugins, whose server this checks",
    names: ["GET /healthz?verbose=1"],
    parts: {
      body: {
        kubelet: `${CHECKS}[+]device-plugin ok\nhealthz check passed\n`,
        berth: `${CHECKS}healthz check passed\n`,
      },
    },
  },
  {
    reason: "as for GET /healthz?verbose=1",
    names: ["GET /healthz?exclude=none&verbose"],
    parts: {
      body: {
        kubelet: `${CHECKS}[+]device-plugin ok\n${NOT_EXCLUDED}healthz check passed\n`,
        berth: `${CHECKS}${NOT_EXCLUDED}healthz check passed\n`,
      },
    },
  },
  {
    reason: "Go leaves out empty fields, which Berth shows",
    names: CONFIGZ,
    parts: {
      ...fields({ berth: "false" }, ...EMPTY_FIELDS.booleans),
      ...fields({ berth: "0" }, ...EMPTY_FIELDS.numbers),
      ...fields({ berth: '""' }, ...EMPTY_FIELDS.strings),
    },
  },
  {
    reason: "the recorded kubelet has no cluster DNS and no static pods, this node has",
    names: CONFIGZ,
    parts: {
      "field kubeletconfig.clusterDNS[]": { berth: '"10.191.0.10"' },
      "field kubeletconfig.clusterDomain": { berth: '"cluster.local"' },
      "field kubeletconfig.staticPodPath": { berth: '"FOLDER/manifests"' },
    },
  },
  {
    reason: "Berth leaves out enableSystemLogQuery where it is not set; the kubelet shows false",
    names: CONFIGZ,
    parts: fields({ kubelet: SHOWN }, ofConfiguration("enableSystemLogQuery")),
  },
  {
    reason: "Berth gives OpenMetrics to a client that asks for it; the kubelet gives the text format alone",
    names: ["GET /metrics (accept application/openmetrics-text; version=1.0.0)"],
    parts: {
      "header content-type": {
        kubelet: "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
        berth: "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores",
      },
    },
  },
  {
    reason: "the attribute href is HTML too, where an ampersand is &amp;; Go leaves it as it is",
    names: ["GET /logs/berth-api-cases/"],
    parts: { body: { kubelet: page("a&b%20%3Cc%3E.log"), berth: page("a&amp;b%20%3Cc%3E.log") } },
  },
  {
    reason: "a pod can write files of /var/log: Berth forbids browsers to guess their type",
    names: [
      FILE,
      ...["0-3", "-5", "0-1,4-5", "0-,0-"].map((range) => `${FILE} (range bytes=${range})`),
      `${FILE} (range bytes=0-3, if-range Wed, 01 Jan 2020 00:00:00 GMT)`,
      `${FILE} (if-modified-since Wed, 01 Jan 2020 00:00:00 GMT)`,
    ],
    parts: { "header x-content-type-options": { berth: "nosniff" } },
  },
  {
    reason: "the kubelet has no index of its profiles, Berth says which it has",
    names: ["GET /debug/pprof/"],
    parts: {
      status: { kubelet: "404", berth: "200" },
      body: { kubelet: "404: Page Not Found", berth: PROFILES },
    },
  },
  {
    reason: "the parser of Bun refuses methods that are not registered",
    names: ["BREW /healthz"],
    parts: {
      status: { kubelet: "200", berth: "400" },
      "header content-type": { kubelet: TEXT },
      "header x-content-type-options": { kubelet: "nosniff" },
      body: { kubelet: "ok", berth: "" },
    },
  },
];
