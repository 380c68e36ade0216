import { afterEach, beforeEach, expect, test } from "bun:test";
import { FakeLog } from "../../../../test/fakes/log.ts";
import { createPlainApi, type PlainApi } from "../../../../test/fakes/plain-api.ts";
import { createDebugFlagRoutes } from "./debug-flags.ts";

let api: PlainApi;
let verbosity: number | undefined;
beforeEach(async () => {
  verbosity = undefined;
  const setVerbosity = (next: number) => {
    verbosity = next;
  };
  api = await createPlainApi(createDebugFlagRoutes({ setVerbosity }), new FakeLog());
});
afterEach(() => api.stop());

const invalid = (text: string) => `strconv.ParseUint: parsing ${text}: invalid syntax`;
test.each([
  ["PUT", "4", 200, "successfully set klog.logging.verbosity to 4", 4],
  ["PUT", "007", 200, "successfully set klog.logging.verbosity to 007", 7],
  ["PUT", "", 400, invalid('""'), undefined],
  ["PUT", "4\n", 400, invalid('"4\\n"'), undefined],
  ["PUT", "-1", 400, invalid('"-1"'), undefined],
  ["PUT", "4.5", 400, invalid('"4.5"'), undefined],
  ["PUT", "4294967296", 400, 'strconv.ParseUint: parsing "4294967296": value out of range', undefined],
  [
    "PUT",
    "2147483648",
    400,
    'failed set klog.logging.verbosity 2147483648: strconv.ParseInt: parsing "2147483648": value out of range',
    undefined,
  ],
  ["PUT", "9".repeat(1_025), 400, "error reading request body: the body is larger than 1024 bytes", undefined],
  ["POST", "4", 406, "unsupported http method", undefined],
  ["GET", "", 406, "unsupported http method", undefined],
] as const)("%s of %j is answered with %i %s", async (method, body, status, text, set) => {
  const answer = await api.send(method, "/debug/flags/v", {}, body);
  expect([answer.status, answer.text, verbosity]).toEqual([status, `${text}\n`, set]);
});
