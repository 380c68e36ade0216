import { expect, test } from "bun:test";
import { Enum, type Field, MapField, Namespace, parse, type ReflectionObject, Service, Type } from "protobufjs";
import golden from "../../test/golden/cri-descriptor.json" with { type: "json" };

type Descriptor = typeof golden;
const source = await Bun.file(new URL("api.proto", import.meta.url)).text();

/** Parses a .proto text and describes it as `test/upstream/cri-descriptor` describes the original. */
function describeProto(text: string): Descriptor {
  const { root, package: name } = parse(text, { keepCase: true });
  root.resolveAll();
  const described: Descriptor = { package: name ?? "", syntax: "proto3", services: [], messages: [], enums: [] };
  const visit = (object: ReflectionObject): void => {
    if (object instanceof Service) described.services.push(describeService(object));
    else if (object instanceof Enum) described.enums.push(describeEnum(object));
    else if (object instanceof Type) described.messages.push(describeMessage(object));
    if (object instanceof Namespace && !(object instanceof Service))
      for (const nested of object.nestedArray) visit(nested);
  };
  visit(root);
  for (const list of [described.services, described.messages, described.enums]) list.sort(byName);
  return described;
}

const byName = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1);
const fullName = (object: ReflectionObject) => object.fullName.slice(1);
const typeName = (type: string, resolved: ReflectionObject | null) => (resolved === null ? type : fullName(resolved));

function describeMessage(type: Type): Descriptor["messages"][number] {
  const fields = type.fieldsArray.toSorted((a, b) => a.id - b.id).map(describeField);
  return { name: fullName(type), fields };
}

function describeField(field: Field) {
  const type = typeName(field.type, field.resolvedType);
  const oneof = field.partOf?.name;
  const common = { name: field.name, number: field.id, ...(oneof === undefined ? {} : { oneof }) };
  if (field instanceof MapField) return { ...common, label: "map", type: `${field.keyType},${type}` };
  return { ...common, label: field.repeated ? "repeated" : field.optional ? "singular" : "required", type };
}

function describeEnum(type: Enum): Descriptor["enums"][number] {
  return { name: fullName(type), values: Object.entries(type.values).map(([name, number]) => ({ name, number })) };
}

function describeService(service: Service): Descriptor["services"][number] {
  const methods = service.methodsArray.toSorted(byName).map((method) => ({
    name: method.name,
    input: `${golden.package}.${method.requestType}`,
    output: `${golden.package}.${method.responseType}`,
    ...(method.requestStream ? { clientStream: true } : {}),
    ...(method.responseStream ? { serverStream: true } : {}),
  }));
  return { name: fullName(service), methods };
}

test("api.proto has the wire format of k8s.io/cri-api", () => {
  expect(describeProto(source)).toEqual(golden);
});

for (const [what, from, to] of [
  ["another field number", "string pod_sandbox_id = 1;", "string pod_sandbox_id = 21;"],
  ["another field type", "int64 created_at = ", "uint64 created_at = "],
  ["another field label", "repeated Mount mounts", "Mount mounts"],
  ["another enum value", "CONTAINER_EXITED = 2", "CONTAINER_EXITED = 5"],
  ["a method that no longer streams", "returns (stream ContainerEventResponse)", "returns (ContainerEventResponse)"],
  ["a missing field", "string runtime_handler = 9;", ""],
] as const)
  test(`the comparison detects ${what}`, () => {
    const planted = source.replace(from, to);
    expect(planted).not.toBe(source);
    expect(describeProto(planted)).not.toEqual(golden);
  });
