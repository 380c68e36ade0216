import type { Container, HTTPGetAction, Pod, Probe } from "../../proto/kubernetes/gen/types.ts";
import { createBoundedExpander } from "./env/variable-expansion.ts";
import { TranslateError } from "./translate-error.ts";

/** What one try of a probe or hook sends to a container: all ports are numbers and all hosts are addresses. */
export type ProbeRequest =
  /**
   * `specCommand` is the command before expansion. Messages show it, because `argv` may hold values that must not be
   * published.
   */
  | { readonly kind: "exec"; readonly argv: readonly string[]; readonly specCommand: readonly string[] }
  | {
      readonly kind: "httpGet";
      readonly url: string;
      readonly headers: readonly Header[];
      /**
       * Set for hooks: any HTTP response is success, whatever its status, and an HTTPS request may fall back to HTTP.
       */
      readonly acceptsAnyResponse?: boolean;
    }
  | { readonly kind: "tcpSocket"; readonly host: string; readonly port: number }
  | { readonly kind: "grpc"; readonly host: string; readonly port: number; readonly service: string };

type Header = readonly [name: string, value: string];

type ProbeHandler = Pick<Probe, "exec" | "httpGet" | "tcpSocket" | "grpc">;

export interface ProbeRequestInput {
  readonly pod: Pod;
  readonly container: Container;
  /** The pod's primary address; undefined until the pod has one. */
  readonly podIP: string | undefined;
  /** The default `User-Agent` header. */
  readonly userAgent: string;
  /** A hook accepts any HTTP response, and its command is not expanded. */
  readonly isHook?: boolean;
}

/**
 * Resolves a probe or lifecycle handler: named ports to numbers, the default host to the pod's address. Throws
 * `TranslateError` for a port name that the container does not declare, for a pod without an address, and for a command
 * that expands beyond the kernel's limit.
 */
export function toProbeRequest(
  { exec, httpGet, tcpSocket, grpc }: ProbeHandler,
  input: ProbeRequestInput,
): ProbeRequest {
  const { container } = input;
  if (exec !== undefined) {
    const { command = [] } = exec;
    if (input.isHook === true) return { kind: "exec", argv: command, specCommand: command };
    // Like the kubelet, expand only variables with a literal value; variables with `valueFrom` expand to the empty
    // string.
    const variables = new Map((container.env ?? []).map(({ name, value = "" }) => [name, value] as const));
    const { expand } = createBoundedExpander(container.name, "ProbeError");
    return { kind: "exec", argv: command.map((arg) => expand(arg, variables)), specCommand: command };
  }
  if (httpGet !== undefined) return toHttpRequest(httpGet, input);
  if (tcpSocket !== undefined)
    return {
      kind: "tcpSocket",
      host: resolveHost(tcpSocket.host, input),
      port: resolvePort(tcpSocket.port, container),
    };
  if (grpc !== undefined)
    return { kind: "grpc", host: resolveHost(undefined, input), port: grpc.port, service: grpc.service ?? "" };
  throw new TranslateError("ProbeError", `missing probe handler for ${container.name}`);
}

function toHttpRequest(
  { scheme = "HTTP", host, port, path = "/", httpHeaders = [] }: HTTPGetAction,
  input: ProbeRequestInput,
): ProbeRequest {
  const address = resolveHost(host, input);
  const authority = `${address.includes(":") ? `[${address}]` : address}:${resolvePort(port, input.container)}`;
  const own = new Set(httpHeaders.map(({ name }) => name.toLowerCase()));
  const defaults = [
    ["User-Agent", input.userAgent],
    ["Accept", "*/*"],
  ] as const;
  const headers: readonly Header[] = [
    ...defaults.filter(([name]) => !own.has(name.toLowerCase())),
    // An empty value removes a default header. Other headers are sent with their empty value.
    ...httpHeaders
      .filter(
        ({ name, value }) =>
          value !== "" || !defaults.some(([defaultName]) => defaultName.toLowerCase() === name.toLowerCase()),
      )
      .map(({ name, value }) => [name, value] as const),
  ];
  return {
    kind: "httpGet",
    url: `${scheme.toLowerCase()}://${authority}${path.startsWith("/") ? path : `/${path}`}`,
    headers,
    ...(input.isHook === true && { acceptsAnyResponse: true }),
  };
}

function resolveHost(host: string | undefined, { podIP }: ProbeRequestInput): string {
  const found = host || podIP;
  if (found === undefined) throw new TranslateError("ProbeError", "the pod has no address yet");
  // Users write IPv6 addresses with the brackets of a URL.
  return found.replace(/^\[(.*)\]$/, "$1");
}

function resolvePort(port: number | string, { name: container, ports = [] }: Container): number {
  const named = ports.find(({ name }) => name !== undefined && name === port)?.containerPort;
  const number = named ?? Number(port);
  if (Number.isInteger(number) && number > 0 && number < 65_536) return number;
  throw new TranslateError("ProbeError", `container ${container} has no port ${JSON.stringify(port)}`);
}
