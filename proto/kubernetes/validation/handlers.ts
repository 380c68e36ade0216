import type { Lifecycle, LifecycleHandler, PodSpec, Probe } from "../gen/types.ts";
import { checkAtMostOne, checkNotNegative, errorIf, type FieldErrors } from "./checks.ts";
import { forbidden, invalid, required } from "./field-error.ts";
import { checkPort, checkPortNumber } from "./names.ts";

type Handler = Pick<Probe, "exec" | "grpc" | "httpGet" | "tcpSocket"> & Pick<LifecycleHandler, "sleep">;
type ProbeKind = "livenessProbe" | "readinessProbe" | "startupProbe";

const handlerKinds = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] as const;

/** Rule: validateProbe and its three callers. */
export function validateProbe(path: string, kind: ProbeKind, probe: Probe | undefined): FieldErrors {
  if (probe === undefined) return [];
  const { failureThreshold, initialDelaySeconds, periodSeconds, successThreshold, timeoutSeconds } = probe;
  const grace = probe.terminationGracePeriodSeconds;
  const graceField = `${path}.terminationGracePeriodSeconds`;
  const mustBeOne = kind !== "readinessProbe" && (successThreshold ?? 1) !== 1;
  return [
    ...validateHandler(path, probe, undefined),
    ...checkNotNegative(`${path}.initialDelaySeconds`, initialDelaySeconds),
    ...checkNotNegative(`${path}.timeoutSeconds`, timeoutSeconds),
    ...checkNotNegative(`${path}.periodSeconds`, periodSeconds),
    ...checkNotNegative(`${path}.successThreshold`, successThreshold),
    ...checkNotNegative(`${path}.failureThreshold`, failureThreshold),
    ...errorIf((grace ?? 1) <= 0, () => invalid(graceField, grace ?? 0, "must be greater than 0")),
    ...errorIf(mustBeOne, () => invalid(`${path}.successThreshold`, successThreshold ?? 0, "must be 1")),
    ...errorIf(kind === "readinessProbe" && grace !== undefined, () =>
      invalid(graceField, grace ?? 0, "must not be set for readinessProbes"),
    ),
  ];
}

/** Rule: validateLifecycle. */
export function validateLifecycle(path: string, lifecycle: Lifecycle | undefined, spec: PodSpec): FieldErrors {
  const { postStart, preStop, stopSignal } = lifecycle ?? {};
  const grace = spec.terminationGracePeriodSeconds;
  return [
    ...(postStart ? validateHandler(`${path}.postStart`, postStart, grace) : []),
    ...(preStop ? validateHandler(`${path}.preStop`, preStop, grace) : []),
    ...errorIf(stopSignal !== undefined && spec.os === undefined, () =>
      forbidden(`${path}.stopSignal`, "may not be set for containers with empty `spec.os.name`"),
    ),
  ];
}

function validateHandler(path: string, handler: Handler, graceSeconds: number | undefined): FieldErrors {
  const kind = handlerKinds.find((name) => handler[name] !== undefined);
  if (kind === undefined) return [required(path, "must specify a handler type")];
  return [
    ...validateHandlerKind(`${path}.${kind}`, kind, handler, graceSeconds),
    ...checkAtMostOne(path, handlerKinds, handler, "handler type"),
  ];
}

function validateHandlerKind(
  path: string,
  kind: (typeof handlerKinds)[number],
  { exec, grpc, httpGet, sleep, tcpSocket }: Handler,
  graceSeconds: number | undefined,
): FieldErrors {
  switch (kind) {
    case "exec":
      return errorIf(!exec?.command?.length, () => required(`${path}.command`));
    case "grpc":
      return checkPortNumber(`${path}.port`, grpc?.port ?? 0);
    case "httpGet":
      return [
        ...checkPort(`${path}.port`, httpGet?.port ?? 0),
        ...(httpGet?.httpHeaders ?? []).flatMap(({ name }) =>
          errorIf(!/^[-A-Za-z0-9]+$/.test(name), () =>
            invalid(`${path}.httpHeaders`, name, "a valid HTTP header must consist of alphanumeric characters or '-'"),
          ),
        ),
      ];
    case "sleep":
      return checkSleep(path, sleep?.seconds ?? 0, graceSeconds);
    case "tcpSocket":
      return checkPort(`${path}.port`, tcpSocket?.port ?? 0);
  }
}

function checkSleep(path: string, seconds: number, graceSeconds: number | undefined): FieldErrors {
  const isWithin = graceSeconds === undefined || (seconds >= 0 && seconds <= graceSeconds);
  const rule = `must be non-negative and less than terminationGracePeriodSeconds (${graceSeconds})`;
  return errorIf(!isWithin, () => invalid(path, seconds, rule));
}
