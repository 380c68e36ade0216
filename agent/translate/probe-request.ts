import type { Container, HTTPGetAction, Pod, Probe } from "../../proto/kubernetes/gen/types.ts";
import { createPortion } from "./env/variable-expansion.ts";
import { TranslateError } from "./translate-error.ts";

/** What a probe or a hook asks a container, ready to be asked. */
export type Enquiry =
  /** `written` is the command as the spec has it: what `$(VAR)` stands for in it is told to nobody else. */
  | { readonly kind: "exec"; readonly argv: readonly string[]; readonly written: readonly string[] }
  | {
      readonly kind: "httpGet";
      readonly url: string;
      readonly headers: readonly Header[];
      /** Any answer will do, whatever its status, and if it has to be without TLS. */
      readonly takesAnyAnswer?: boolean;
    }
  | { readonly kind: "tcpSocket"; readonly host: string; readonly port: number }
  | { readonly kind: "grpc"; readonly host: string; readonly port: number; readonly service: string };

type Header = readonly [name: string, value: string];

type Handler = Pick<Probe, "exec" | "httpGet" | "tcpSocket" | "grpc">;

export interface EnquiryScene {
  readonly pod: Pod;
  readonly container: Container;
  /** The pod's address; undefined as long as it has none. */
  readonly podIP: string | undefined;
  /** What an HTTP server is told who asks, unless the spec says otherwise. */
  readonly userAgent: string;
  /** Whoever answers the HTTP request of a hook has heard it; and its command is taken as it is written. */
  readonly isHook?: boolean;
}

/**
 * A handler of the spec in plain values: ports by number, hosts by address. Throws `TranslateError` for a port that the container does
 * not name, where the pod has no address yet, and for a command that is larger than any.
 */
export function enquiryOf({ exec, httpGet, tcpSocket, grpc }: Handler, scene: EnquiryScene): Enquiry {
  const { container } = scene;
  if (exec !== undefined) {
    const { command = [] } = exec;
    if (scene.isHook === true) return { kind: "exec", argv: command, written: command };
    // As in the container's own command, but for what is taken from elsewhere: as with the kubelet, that is empty here.
    const known = new Map((container.env ?? []).map(({ name, value = "" }) => [name, value] as const));
    const { expand } = createPortion(container.name, "ProbeError");
    return { kind: "exec", argv: command.map((word) => expand(word, known)), written: command };
  }
  if (httpGet !== undefined) return httpCall(httpGet, scene);
  if (tcpSocket !== undefined)
    return { kind: "tcpSocket", host: hostOf(tcpSocket.host, scene), port: portOf(tcpSocket.port, container) };
  if (grpc !== undefined)
    return { kind: "grpc", host: hostOf(undefined, scene), port: grpc.port, service: grpc.service ?? "" };
  throw new TranslateError("ProbeError", `missing probe handler for ${container.name}`);
}

function httpCall(
  { scheme = "HTTP", host, port, path = "/", httpHeaders = [] }: HTTPGetAction,
  scene: EnquiryScene,
): Enquiry {
  const address = hostOf(host, scene);
  const authority = `${address.includes(":") ? `[${address}]` : address}:${portOf(port, scene.container)}`;
  const own = new Set(httpHeaders.map(({ name }) => name.toLowerCase()));
  const defaults = [
    ["User-Agent", scene.userAgent],
    ["Accept", "*/*"],
  ] as const;
  const headers: readonly Header[] = [
    ...defaults.filter(([name]) => !own.has(name.toLowerCase())),
    // Who writes one of these without a value does not want it sent; any other is sent empty.
    ...httpHeaders
      .filter(
        ({ name, value }) => value !== "" || !defaults.some(([known]) => known.toLowerCase() === name.toLowerCase()),
      )
      .map(({ name, value }) => [name, value] as const),
  ];
  return {
    kind: "httpGet",
    url: `${scheme.toLowerCase()}://${authority}${path.startsWith("/") ? path : `/${path}`}`,
    headers,
    ...(scene.isHook === true && { takesAnyAnswer: true }),
  };
}

function hostOf(host: string | undefined, { podIP }: EnquiryScene): string {
  const found = host || podIP;
  if (found === undefined) throw new TranslateError("ProbeError", "the pod has no address yet");
  // Whoever has URLs in mind writes an address of IPv6 in its brackets.
  return found.replace(/^\[(.*)\]$/, "$1");
}

function portOf(port: number | string, { name: container, ports = [] }: Container): number {
  const named = ports.find(({ name }) => name !== undefined && name === port)?.containerPort;
  const number = named ?? Number(port);
  if (Number.isInteger(number) && number > 0 && number < 65_536) return number;
  throw new TranslateError("ProbeError", `container ${container} has no port ${JSON.stringify(port)}`);
}
