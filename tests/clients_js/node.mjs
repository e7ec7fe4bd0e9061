// Evaluates each line of its input, which is an expression in JSON, and prints the line that it makes.
import { createInterface } from "node:readline";

globalThis.reenact = await import("../../clients/js/reenact.js");
for await (const line of createInterface({ input: process.stdin })) {
  console.log(await (0, eval)(JSON.parse(line)));
}
