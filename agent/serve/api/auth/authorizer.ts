import type { UserInfo } from "../user-info.ts";

/** One question to the authorizer: may this user do this with the node's subresource? */
export interface AccessRequest {
  readonly user: UserInfo;
  readonly verb: string;
  readonly subresource: string;
  readonly path: string;
}

/** Rejects with `KubeError` if the question cannot be answered. */
export interface Authorizer {
  isAllowed(request: AccessRequest, signal: AbortSignal): Promise<boolean>;
}

/** `authorization.mode: AlwaysAllow`: every authenticated user may do everything. */
export const alwaysAllow: Authorizer = { isAllowed: async () => true };
