// What pods show of probes.
import { notObservable, type ReferenceRow } from "./reference-row.ts";

export const probesRows: readonly ReferenceRow[] = [
  [
    132,
    "times",
    {
      "ready-by-exec": "Readiness probe errored and resulted in unknown state: rpc error: code = Canceled",
      "ready-by-http": notObservable,
      "unready-by-delay": 'command timed out: "sh -c sleep 1000" timed out after 1s',
    },
  ],
  [
    133,
    "first results",
    {
      "unready-by-exec": "event Warning Unhealthy spec.containers{main}: Readiness probe failed: not yet",
      startup: notObservable,
    },
  ],
  [
    134,
    "effects",
    {
      "startup-fails": "Startup probe failed: never",
      "liveness-fails-once": "Container main failed liveness probe, will be restarted",
      "liveness-ends-it": "Liveness probe failed: dead",
      "unready-by-no-command": "stat /no/such/command: no such file or directory",
    },
  ],
  [
    135,
    "HTTP",
    {
      "ready-by-named-http": notObservable,
      "unready-by-http": "HTTP probe failed with statuscode: 404",
      "unready-by-tls": "http: server gave HTTP response to HTTPS client",
      "ready-by-redirect": notObservable,
      "ready-by-redirect-elsewhere": "Readiness probe warning: Probe terminated redirects, Response body: elsewhere",
    },
  ],
  [
    136,
    "TCP, gRPC and commands",
    {
      "ready-by-tcp": notObservable,
      "unready-by-tcp": "Readiness probe failed: dial tcp POD-IP:9: connect: connection refused",
      "unready-by-grpc": 'failed to connect service "POD-IP:9" within 5s',
      "unready-by-no-command": "stat /no/such/command: no such file or directory",
    },
  ],
  [
    137,
    "events",
    {
      "unready-by-name": 'strconv.Atoi: parsing "none": invalid syntax',
      "unready-by-closed-port": 'Get "http://POD-IP:9/": dial tcp POD-IP:9: connect: connection refused',
      "ready-by-redirect-elsewhere": "event Warning ProbeWarning",
    },
  ],
];
