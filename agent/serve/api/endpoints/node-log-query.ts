/** What `/logs/?query=` asks for. */
export interface NodeLogQuery {
  readonly services: readonly string[];
  readonly files: readonly string[];
  /** RFC 3339. */
  readonly sinceTime: string | undefined;
  readonly untilTime: string | undefined;
  readonly tailLines: number | undefined;
  /** 0 is the running boot, -1 the one before. */
  readonly boot: number | undefined;
  /** A PCRE2 regular expression. */
  readonly pattern: string | undefined;
}

export type ParsedNodeLogQuery =
  | { readonly kind: "none" }
  | { readonly kind: "query"; readonly query: NodeLogQuery }
  /** 400 for a value that is malformed, 406 for values that are not allowed. */
  | { readonly kind: "invalid"; readonly status: 400 | 406; readonly message: string };

const MAX_SERVICES = 4;
const MAX_SERVICE_LENGTH = 256;
const MAX_TAIL_LINES = 100_000;
/** Characters that can be no part of an option of journalctl, of a path or of a glob. */
const UNSAFE_SERVICE = /[^a-zA-Z\-_.:0-9@]/;
const RFC3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([.,]\d+)?(Z|[+-]\d\d:\d\d)$/;

/** Rule: newNodeLogQuery and validate in pkg/kubelet/kubelet_server_journal.go; the messages are the kubelet's. */
export function parseNodeLogQuery(params: URLSearchParams): ParsedNodeLogQuery {
  const asked = params.getAll("query");
  const query: NodeLogQuery = {
    files: asked.filter((text) => /[/\\]/.test(text)),
    services: asked.filter((text) => !/[/\\]/.test(text) && text.trim() !== ""),
    sinceTime: params.get("sinceTime") || undefined,
    untilTime: params.get("untilTime") || undefined,
    tailLines: integerOf(params.get("tailLines")),
    boot: integerOf(params.get("boot")),
    pattern: params.get("pattern") || undefined,
  };
  const malformed = malformedValues(query, params);
  if (malformed.length > 0) return { kind: "invalid", status: 400, message: aggregate(malformed) };
  if (asked.length === 0 && !hasOptions(query)) return { kind: "none" };
  const refused = refusedValues(query);
  if (refused.length > 0) return { kind: "invalid", status: 406, message: aggregate(refused) };
  return { kind: "query", query };
}

/** As Go's `strconv.Atoi`; NaN for anything else. */
function integerOf(text: string | null): number | undefined {
  if (text === null || text === "") return undefined;
  return /^[+-]?\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
}

const invalid = (field: string, value: unknown, detail: string) =>
  `${field}: Invalid value: ${JSON.stringify(value)}: ${detail}`;

function malformedValues(query: NodeLogQuery, params: URLSearchParams): readonly string[] {
  const { files, services, sinceTime, untilTime, tailLines, boot } = query;
  const asked = params.getAll("query");
  const times = { sinceTime, untilTime };
  const numbers = { boot, tailLines };
  return [
    ...(asked.length > 0 && files.length + services.length === 0 ? [invalid("query", asked, "may not be empty")] : []),
    ...Object.entries(times)
      .filter(([, time]) => time !== undefined && !isTime(time))
      .map(([field, time]) => invalid(field, time, "invalid time format")),
    ...Object.entries(numbers)
      .filter(([, number]) => Number.isNaN(number))
      .map(([field]) => {
        const text = params.get(field);
        return invalid(field, text, `strconv.Atoi: parsing ${JSON.stringify(text)}: invalid syntax`);
      }),
  ];
}

const isTime = (text: string) => RFC3339.test(text) && !Number.isNaN(Date.parse(text));

function hasOptions({ sinceTime, untilTime, tailLines, boot, pattern }: NodeLogQuery): boolean {
  return [sinceTime, untilTime, tailLines, boot, pattern].some((option) => option !== undefined);
}

function refusedValues(query: NodeLogQuery): readonly string[] {
  const { services, sinceTime, untilTime, tailLines, boot } = query;
  const isReversed =
    sinceTime !== undefined && untilTime !== undefined && Date.parse(sinceTime) > Date.parse(untilTime);
  return [
    ...services.flatMap(refusedService),
    ...(services.length > MAX_SERVICES
      ? [`query: Too many: ${services.length}: must have at most ${MAX_SERVICES} items`]
      : []),
    ...refusedCombination(query),
    ...(isReversed ? [invalid("untilTime", untilTime, "must be after `sinceTime`")] : []),
    ...(boot !== undefined && boot > 0 ? [invalid("boot", boot, "must be less than 1")] : []),
    ...(tailLines !== undefined && (tailLines < 0 || tailLines > MAX_TAIL_LINES)
      ? [invalid("tailLines", tailLines, `must be between 0 and ${MAX_TAIL_LINES}, inclusive`)]
      : []),
  ];
}

function refusedService(service: string): readonly string[] {
  if (service.length > MAX_SERVICE_LENGTH)
    return [invalid("query", service, `length must be less than ${MAX_SERVICE_LENGTH}`)];
  return UNSAFE_SERVICE.test(service) ? [invalid("query", service, "input contains unsupported characters")] : [];
}

function refusedCombination(query: NodeLogQuery): readonly string[] {
  const { files, services } = query;
  if (files.length + services.length === 0) return ["query: Required value: cannot be empty with options"];
  if (files.length > 0 && services.length > 0)
    return [invalid("query", `[${files.join(" ")}], [${services.join(" ")}]`, "cannot specify a file and service")];
  if (files.length > 1) return [invalid("query", files, "cannot specify more than one file")];
  if (files.length === 1 && hasOptions(query)) return [invalid("query", files, "cannot specify file with options")];
  return [];
}

/** Several errors in brackets, each text once, as Go's Aggregate. */
function aggregate(messages: readonly string[]): string {
  const unique = [...new Set(messages)];
  return unique.length === 1 ? (unique[0] ?? "") : `[${unique.join(", ")}]`;
}

/** The arguments of journalctl. Every value is part of an argument that begins with its option, so that none is taken for another option. */
export function journalArguments(query: NodeLogQuery, services: readonly string[]): readonly string[] {
  const { sinceTime, untilTime, tailLines, boot, pattern } = query;
  return [
    "--utc",
    "--no-pager",
    "--output=short-precise",
    ...(sinceTime === undefined ? [] : [`--since=${journalTime(sinceTime)}`]),
    ...(untilTime === undefined ? [] : [`--until=${journalTime(untilTime)}`]),
    ...(tailLines === undefined ? [] : ["--pager-end", `--lines=${tailLines}`]),
    ...services.map((service) => `--unit=${service}`),
    ...(pattern === undefined ? [] : [`--grep=${pattern}`]),
    ...(boot === undefined ? [] : [`--boot=${boot}`]),
  ];
}

/** With `--utc` journalctl prints UTC, but reads times in the zone of the machine unless they name one. */
function journalTime(time: string): string {
  return `${new Date(time).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}
