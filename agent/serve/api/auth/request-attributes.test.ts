import { expect, test } from "bun:test";
import { requestAttributesOf } from "./request-attributes.ts";

/** The kubelet's own table (`TestGetRequestAttributes` and the comment of GetRequestAttributes), and decision 9. */
const paths: readonly (readonly [path: string, subresources: readonly string[]])[] = [
  ["/", ["proxy"]],
  ["/pods", ["pods", "proxy"]],
  ["/pods/", ["pods", "proxy"]],
  ["/podsx", ["proxy"]],
  ["/runningpods", ["pods", "proxy"]],
  ["/runningpods/", ["pods", "proxy"]],
  ["/healthz", ["healthz", "proxy"]],
  ["/healthz/log", ["healthz", "proxy"]],
  ["/healthzz", ["proxy"]],
  ["/configz", ["configz", "proxy"]],
  ["/flagz", ["configz"]],
  ["/statusz", ["statusz"]],
  ["/stats/summary", ["stats"]],
  ["/stats", ["stats"]],
  ["/statsx", ["proxy"]],
  ["/metrics", ["metrics"]],
  ["/metrics/cadvisor", ["metrics"]],
  ["/logs/", ["log"]],
  ["/logs/syslog", ["log"]],
  ["/checkpoint/shop/web/app", ["checkpoint"]],
  ["/containerLogs/shop/web/app", ["proxy"]],
  ["/debug/pprof/profile", ["proxy"]],
];
test.each(paths)("%s needs %j", (path, subresources) => {
  expect(requestAttributesOf("GET", path)).toEqual({ verb: "get", subresources, path });
});

test.each([
  ["GET", "get"],
  ["POST", "create"],
  ["PUT", "update"],
  ["PATCH", "patch"],
  ["DELETE", "delete"],
  ["HEAD", ""],
  ["OPTIONS", ""],
  ["get", ""],
])("the method %s is the verb %j", (method, verb) => {
  expect(requestAttributesOf(method, "/pods").verb).toBe(verb);
});

test("the log's verbosity is set with the right to update nodes/proxy", () => {
  const path = "/debug/flags/v";
  expect(requestAttributesOf("PUT", path)).toEqual({ verb: "update", subresources: ["proxy"], path });
});

test.each(["/exec/a/b/c", "/attach/a/b/c", "/run/a/b/c", "/portForward/a/b", "/exec", "/debug/pprof/heap"])(
  "%s needs the verb create whatever the method, since it changes what runs or shows what is in memory",
  (path) => {
    for (const method of ["GET", "POST", "PUT", "HEAD"])
      expect(requestAttributesOf(method, path)).toEqual({ verb: "create", subresources: ["proxy"], path });
  },
);
