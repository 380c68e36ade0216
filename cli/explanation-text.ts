import type { ExplainedCause, ExplainedStep, PodExplanation } from "../agent/serve/local/explain/pod-explanation.ts";
import { escapeControlChars } from "../host/log/escape-control.ts";
import { formatElapsed } from "../proto/kubernetes/values/duration.ts";
import { ageOf } from "./age.ts";
import { hangingLines } from "./terminal-text.ts";

/**
 * The text of `berth explain`: the state, the steps of the start with their times (UTC) and durations, and the cause with its
 * cure. Messages may come from a container, so control characters are escaped (CVE-2021-25743).
 */
export function formatExplanation(
  explanation: PodExplanation,
  now: number,
  columns = Number.POSITIVE_INFINITY,
): string {
  const { namespace, name, state, ready, source, refused, correction, timeline, cause } = explanation;
  const lines = (before: string, text: string) => hangingLines(before, escapeControlChars(text), columns);
  const durations = timeline.map(({ ms }) => (ms === undefined ? "" : `${ms} ms`));
  const width = Math.max(0, ...durations.map(({ length }) => length));
  const blocks = [
    lines("", `${namespace}/${name}: ${state}, ${ready} ready, from ${source}`),
    refused === undefined
      ? []
      : [
          ...lines("", `the agent refuses this manifest: ${refused}`),
          ...(correction === undefined ? [] : cureLines(correction, lines)),
        ],
    timeline.flatMap((step, index) =>
      lines(`  ${clockText(step.at)}  ${(durations[index] ?? "").padStart(width)}  `, stepText(step, now)),
    ),
    cause === undefined ? [] : causeLines(cause, now, lines),
  ];
  return `${blocks
    .filter((block) => block.length > 0)
    .map((block) => block.join("\n"))
    .join("\n\n")}\n`;
}

/** `14:03:07.120` of an RFC 3339 time with microseconds. */
const clockText = (time: string) => time.slice(11, 23);

/** `create container a`, `pull image b … 5 times, last 40s ago, FAILED the last 3 times: ErrImagePull` */
function stepText({ what, times = 1, lastAt = "", failed }: ExplainedStep, now: number): string {
  const repeats = times === 1 ? "" : ` … ${times} times, last ${ageOf(lastAt, now)} ago`;
  return `${what}${repeats}${failed === undefined ? "" : `, FAILED${whenFailed(failed.times, times)}: ${failed.reason}`}`;
}

function whenFailed(failures: number, times: number): string {
  if (times === 1) return "";
  if (failures >= times) return " each time";
  return failures === 1 ? " the last time" : ` the last ${failures} times`;
}

type Lines = (before: string, text: string) => readonly string[];

function causeLines(cause: ExplainedCause, now: number, lines: Lines): readonly string[] {
  const { container, reason, message, explanation, cure, commands } = cause;
  const subject = container === undefined ? "" : `container ${container}: `;
  const colon = reason !== "" && message !== "" ? ": " : "";
  return [
    ...lines("why   ", `${subject}${reason}${colon}${message}`),
    ...(explanation === undefined ? [] : lines("      ", explanation)),
    ...triesLines(cause, now, lines),
    ...cureLines({ cure, commands }, lines),
  ];
}

function cureLines({ cure, commands }: Pick<ExplainedCause, "cure" | "commands">, lines: Lines): readonly string[] {
  return [
    ...(cure === "" ? [] : lines("cure  ", cure)),
    ...commands.flatMap((command, index) => lines(index === 0 ? "run   " : "      ", command)),
  ];
}

function triesLines({ tries, retryAt }: ExplainedCause, now: number, lines: Lines): readonly string[] {
  if (retryAt === undefined) return [];
  const inMs = Date.parse(retryAt) - now;
  const when =
    inMs > 0 ? `again at ${clockText(retryAt)}, in ${formatElapsed(Math.ceil(inMs / 1000) * 1000)}` : "again now";
  const count = tries === undefined ? "" : `tried ${tries === 1 ? "once" : `${tries} times`}, `;
  return lines("next  ", `${count}${when}`);
}
