import type { Log } from "../../../../host/log/log.ts";
import { ApiError } from "../api-error.ts";
import type { UserInfo } from "../user-info.ts";
import type { Authenticator, RequestCredentials } from "./authenticator.ts";
import type { Authorizer } from "./authorizer.ts";
import { type RequestAttributes, requestAttributesOf } from "./request-attributes.ts";

export interface AdmissionRequest {
  readonly method: string;
  /** Decoded. */
  readonly path: string;
  readonly credentials: RequestCredentials;
}

/** Authenticates and authorizes a request. Rejects with `ApiError` 401, 403, 429 or 500 and the kubelet's text. */
export type AdmitRequest = (request: AdmissionRequest) => Promise<UserInfo>;

/** Rule: InstallAuthFilter in pkg/kubelet/server/server.go. */
export function createAdmitRequest(authenticator: Authenticator, authorizer: Authorizer, log: Log): AdmitRequest {
  async function isAllowed(user: UserInfo, attributes: RequestAttributes, signal: AbortSignal): Promise<boolean> {
    const { verb, path } = attributes;
    for (const subresource of attributes.subresources) {
      try {
        if (await authorizer.isAllowed({ user, verb, subresource, path }, signal)) return true;
      } catch (error) {
        if (error instanceof ApiError) throw error;
        log.warn(
          { err: error, user: user.username, verb, subresource },
          "cannot authorize a request to the node's API",
        );
        const asked = `user=${user.username}, verb=${verb}, resource=nodes, subresource=${subresource}`;
        throw new ApiError(500, `Authorization error (${asked})`, { cause: error });
      }
    }
    return false;
  }

  return async ({ method, path, credentials }) => {
    const user = await authenticator.authenticate(credentials).catch((error: unknown) => {
      log.debug({ err: error }, "cannot authenticate a request to the node's API");
      if (error instanceof ApiError) throw error;
      throw new ApiError(401, "Unauthorized", { cause: error });
    });
    if (user === undefined) throw new ApiError(401, "Unauthorized");
    const attributes = requestAttributesOf(method, path);
    if (await isAllowed(user, attributes, credentials.signal)) return user;
    throw new ApiError(403, forbiddenText(user, attributes));
  };
}

function forbiddenText({ username }: UserInfo, { verb, subresources }: RequestAttributes): string {
  return `Forbidden (user=${username}, verb=${verb}, resource=nodes, subresource(s)=[${subresources.join(" ")}])\n`;
}
