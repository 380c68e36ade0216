import { expect, test } from "bun:test";
import { createEventSource } from "./event-source.ts";

test("each subscriber gets the events since it has subscribed, in order of subscription", () => {
  const calls: string[] = [];
  const source = createEventSource<[name: string, count: number]>();
  source.emit("lost", 1);
  source.subscribe((name, count) => calls.push(`first ${name} ${count}`));
  source.emit("web", 2);
  source.subscribe((name, count) => calls.push(`second ${name} ${count}`));
  source.emit("db", 3);
  expect(calls).toEqual(["first web 2", "first db 3", "second db 3"]);
});

test("a subscriber gets no events after it has unsubscribed", () => {
  const calls: string[] = [];
  const source = createEventSource<[name: string]>();
  const record = (name: string) => calls.push(name);
  const unsubscribe = source.subscribe(record);
  source.subscribe(record);
  unsubscribe();
  source.emit("web");
  expect(calls).toEqual(["web"]);
});
