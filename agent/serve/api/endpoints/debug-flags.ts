import { ApiError } from "../api-error.ts";
import { NO_SNIFF, sendText } from "../api-response.ts";
import type { ApiRequest, ApiResponse, Route } from "../route.ts";

export interface DebugFlagDeps {
  /** Sets the klog verbosity of the log until the agent ends. */
  readonly setVerbosity: (verbosity: number) => void;
}

const MAX_BODY_BYTES = 1_024;

/**
 * `/debug/flags/v`: PUT with a number as its body sets the verbosity of the log, with the kubelet's answers. Rule:
 * StringFlagPutHandler in k8s.io/apiserver/pkg/server/routes/flags.go, GlogSetter in k8s.io/component-base/logs.
 */
export function createDebugFlagRoutes({ setVerbosity }: DebugFlagDeps): readonly Route[] {
  async function handle({ method, body }: ApiRequest, response: ApiResponse): Promise<void> {
    if (method !== "PUT") return sendPlain(response, 406, "unsupported http method");
    const text = await readText(body);
    const problem = verbosityProblem(text);
    if (problem !== undefined) return sendPlain(response, 400, problem);
    setVerbosity(Number(text));
    sendPlain(response, 200, `successfully set klog.logging.verbosity to ${text}`);
  }
  return [{ pattern: "/debug/flags/v", methods: "all", handle }];
}

async function readText(body: ApiRequest["body"]): Promise<string> {
  try {
    return (await body(MAX_BODY_BYTES)).toString();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    throw new ApiError(400, `error reading request body: ${error.message}\n`, { cause: error });
  }
}

/** The error of Go's `strconv` for a number that the verbosity cannot be, or undefined. */
function verbosityProblem(text: string): string | undefined {
  const parsing = `parsing ${JSON.stringify(text)}`;
  if (!/^[0-9]+$/.test(text)) return `strconv.ParseUint: ${parsing}: invalid syntax`;
  if (Number(text) >= 2 ** 32) return `strconv.ParseUint: ${parsing}: value out of range`;
  if (Number(text) < 2 ** 31) return undefined;
  return `failed set klog.logging.verbosity ${text}: strconv.ParseInt: ${parsing}: value out of range`;
}

function sendPlain(response: ApiResponse, status: number, text: string): void {
  sendText(response, status, `${text}\n`, { "content-type": "text/plain", ...NO_SNIFF });
}
