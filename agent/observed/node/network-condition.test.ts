import { expect, test } from "bun:test";
import { StatusResponse } from "../../../proto/cri/gen/api.ts";
import { withNetworkProblem } from "./network-condition.ts";

const ready = { type: "RuntimeReady", status: true, reason: "", message: "" };
const statusWith = (network: object) =>
  StatusResponse.fromPartial({ status: { conditions: [ready, { ...ready, type: "NetworkReady", ...network }] } });

test("a problem of the network makes NetworkReady false, and the runtime's own message stays", () => {
  const reason = "NetworkPluginNotReady";
  const problem = statusWith({ status: false, reason, message: "Network plugin returns error: no list" });
  const own = statusWith({ status: false, reason, message: "cni plugin not initialized" });
  expect(withNetworkProblem(statusWith({}), "no list")).toEqual(problem);
  expect(withNetworkProblem(statusWith({}), undefined)).toEqual(statusWith({}));
  expect(withNetworkProblem(own, "no list")).toEqual(own);
});
