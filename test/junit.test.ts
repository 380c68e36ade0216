import { expect, test } from "bun:test";
import { readJunit } from "./junit.ts";

const report = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="bun test" tests="4" assertions="1" failures="1" skipped="2" time="0.007">
  <testsuite name="j.test.ts" file="j.test.ts" tests="4" assertions="1" failures="1" skipped="2" time="0.002">
    <testsuite name="group &lt;a&gt;" file="j.test.ts" line="2" tests="4" failures="1" skipped="2" time="0.001">
      <testcase name="passes &amp; so" classname="group &lt;a&gt;" time="0" file="j.test.ts" line="2" assertions="0" />
      <testcase name="needs go on PATH" classname="" time="0" file="j.test.ts" line="2" assertions="0">
        <skipped />
      </testcase>
      <testcase name="later" classname="group &lt;a&gt;" time="0" file="j.test.ts" line="2" assertions="0">
        <skipped message="TODO" />
      </testcase>
      <testcase name="fails" classname="group &lt;a&gt;" time="0.001" file="j.test.ts" line="2" assertions="1">
        <failure type="AssertionError" message="expect(1 &gt; 2)">AssertionError: 1 &lt; 2</failure>
      </testcase>
    </testsuite>
  </testsuite>
</testsuites>`;

test("passed, failed and skipped tests are distinguished, with full names", () => {
  expect(readJunit(report)).toEqual({
    passed: 1,
    failed: ["group <a> > fails"],
    skipped: ["needs go on PATH", "group <a> > later"],
  });
});

test("a missing report counts no tests", () => {
  expect(readJunit("")).toEqual({ passed: 0, failed: [], skipped: [] });
});
