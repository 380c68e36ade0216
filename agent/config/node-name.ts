import { checkSubdomain } from "../../proto/kubernetes/validation/names.ts";
import { shorten } from "../../proto/yaml/value-node.ts";
import type { Problem } from "./problem.ts";

const rule =
  "an RFC 1123 subdomain such as node-1.example.org: letters, digits, - and ., each part beginning and ending with a letter or digit, at most 253 bytes";

/**
 * The node's name: `--hostname-override`, else the machine's hostname, trimmed and in lower case. Static pods are named
 * after the node, so an invalid name is a problem of the start and not of each manifest.
 */
export function nodeNameOf(
  override: string,
  hostname: string,
): { readonly nodeName: string; readonly problems: readonly Problem[] } {
  const found = override === "" ? hostname : override;
  const nodeName = found.trim().toLowerCase();
  if (nodeName === "") return { nodeName, problems: [missingName] };
  if (checkSubdomain("", nodeName).length === 0) return { nodeName, problems: [] };
  const message = `found ${shorten(JSON.stringify(found))}, must be ${rule}`;
  const problem =
    override === ""
      ? {
          where: "this machine's hostname",
          field: "",
          message: `${message}; --hostname-override gives the node another`,
        }
      : { where: "--hostname-override", field: "", message };
  return { nodeName, problems: [problem] };
}

const missingName: Problem = {
  where: "--hostname-override",
  field: "",
  message: "must be set, since the machine has no hostname",
};
