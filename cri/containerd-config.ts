import type { StatusResponse } from "../proto/cri/gen/api.ts";

/** The fields of an object whose content no standard defines. */
export type Fields = Readonly<Record<string, unknown>>;

/** The object in a field; without fields if there is none. */
export function fieldsAt(fields: Fields, name: string): Fields {
  const value = fields[name];
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

/**
 * The configuration of containerd's CRI plugin, which its verbose status contains; without fields for another runtime. It may
 * contain credentials: never log it.
 */
export function containerdConfig({ info }: StatusResponse): Fields {
  try {
    return fieldsAt({ parsed: JSON.parse(info["config"] ?? "{}") }, "parsed");
  } catch {
    // The runtime's own information may be anything; without it these facts are unknown.
    return {};
  }
}
