// The tests of a proxy's configuration: what the proxy itself thinks of it, and three replicas behind it that are
// stopped, killed and started again under load.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { open_stream, request } from "../support/http.mjs";
import { kill_servers, metric_in, start_server } from "../support/server.mjs";
import { check_replicas } from "./check_replicas.mjs";
import { answer_alone, HEADERS, KEY, QUESTIONS, start_load } from "./load.mjs";
import { check_configuration, end_proxies, start_proxy } from "./proxy.mjs";

const [tool] = process.argv.slice(2);
const OPTIONS = ["--api-key", KEY, "--threads", "1", "--kv-memory", "0.1"];
const CLIENTS = 6;
const MOST_DEATHS = 6;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until_metric(server, name, least) {
  for (const deadline = Date.now() + 10_000; ; await sleep(5)) {
    const { body } = await request(server.url, "/metrics", { headers: HEADERS });
    if (metric_in(body, name) >= least) return;
    if (Date.now() > deadline) throw new Error(`${server.url}: ${name} was not ${least} within 10 s`);
  }
}
const until_busy = (server) => until_metric(server, "num_requests_running", 2);
const until_used = (server) => until_metric(server, "generation_tokens_total", 1); // a new one that the proxy has found

// `wrong` is a change that the proxy must refuse, and `buffered` are those with which it keeps streams back, if it can.
export function test_proxy(kind, { wrong, buffered }) {
  let replicas;
  let expected;
  const ports = () => replicas.map(({ port }) => port);
  const start_again = async (i) => {
    replicas[i] = await start_server(tool, OPTIONS, replicas[i].port);
  };

  before(async () => {
    replicas = await Promise.all([1, 2, 3].map(() => start_server(tool, OPTIONS)));
    expected = [];
    for (const question of QUESTIONS) expected.push(await answer_alone(replicas[0].url, question));
  });
  after(() => {
    kill_servers();
    end_proxies();
  });

  test(`${kind.name} takes the file in deploy/, also with its lines for TLS, and not any other`, () => {
    for (const tls of [false, true]) {
      const { status, told, text } = check_configuration(kind, { tls });
      assert.equal(status, 0, told);
      assert.equal(/^ *(listen|bind) .*ssl/m.test(text), tls);
    }
    assert.notEqual(check_configuration(kind, { changes: [wrong] }).status, 0);
  });

  // The part of the time of an answer after which a quarter of its tokens were there.
  const wait_for_a_quarter = async (url) => {
    const begin = performance.now();
    const times = [];
    const body = { prompt: "1", ignore_eos: true, max_tokens: 150 };
    const { events } = await open_stream(url, "/v1/completions", body, HEADERS);
    for await (const { at } of events) times.push(at - begin);
    assert.ok(times.length > 100); // a token may have no text to send yet
    return times[Math.floor(times.length / 4)] / times.at(-1);
  };

  test("tokens come through one by one, large requests and errors come through, and metrics do not", async () => {
    const proxy = await start_proxy(kind, ports());
    const part = await wait_for_a_quarter(proxy.url);
    assert.ok(part < 0.6, `a quarter of the tokens came after ${part} of the time`);
    const body = { prompt: "1 ".repeat(2 ** 20) };
    const long = await request(proxy.url, "/v1/completions", { body, headers: HEADERS });
    assert.deepEqual([long.status, long.json().error.code], [400, "context_length_exceeded"]);
    assert.equal((await request(proxy.url, "/v1/models")).status, 401);
    assert.equal((await request(proxy.url, "/metrics", { headers: HEADERS })).status, 404);
    await proxy.stop();
    if (buffered === undefined) return;
    const keeping = await start_proxy(kind, ports(), buffered);
    const late = await wait_for_a_quarter(keeping.url);
    assert.ok(late > 0.6, `with a buffer a quarter of the tokens came after ${late} of the time`);
    await keeping.stop();
  });

  test("a replica that is stopped under load and started again is noticed by nobody", async () => {
    const proxy = await start_proxy(kind, ports());
    const load = start_load(proxy.url, expected, CLIENTS);
    await until_busy(replicas[0]);
    assert.deepEqual(await replicas[0].stop(), { status: 0, signal: null });
    await start_again(0);
    await until_used(replicas[0]);
    const { answers, wrong: differ, failed, broken } = await load.end();
    assert.deepEqual({ differ, failed, broken }, { differ: [], failed: [], broken: [] });
    console.log(`SIGTERM: ${answers} answers; the proxy sent ${proxy.retries()} requests again, clients none`);
    await proxy.stop();
  });

  test("replicas killed with -9 under load: what is retried has the digests that it would have had", async () => {
    const proxy = await start_proxy(kind, ports());
    const load = start_load(proxy.url, expected, CLIENTS);
    let deaths = 0;
    // Until a stream was broken, which the client retries, and a request that had brought no byte, which the proxy does.
    while (load.tally.streams_broken === 0 || proxy.retries() === 0) {
      assert.ok(deaths < MOST_DEATHS, `${deaths} deaths broke no stream, or let the proxy retry nothing`);
      const victim = replicas[deaths % 3];
      await until_busy(victim);
      victim.kill("SIGKILL");
      assert.equal((await victim.ended).signal, "SIGKILL");
      await sleep(500); // with two
      await start_again(deaths % 3);
      await until_used(replicas[deaths % 3]);
      deaths++;
    }
    const { answers, streamed, wrong: differ, failed, broken, streams_broken, retried } = await load.end();
    assert.deepEqual({ differ, failed }, { differ: [], failed: [] });
    assert.ok(streamed > 0 && streamed < answers && retried > 0);
    console.log(
      `kill -9: ${answers} answers (${streamed} streamed), ${deaths} deaths; the proxy sent ${proxy.retries()} requests ` +
        `again, clients ${broken.length} (${streams_broken} with tokens already there): ${retried} answers came by these`,
    );
    await proxy.stop();
  });

  test("the control: another contract is found by check_replicas.py, and behind the proxy digests would differ", async () => {
    const same = await check_replicas(replicas);
    assert.deepEqual([same.status, same.told.split("\n").at(-2)], [0, "3 replicas agree"]);
    const fourth = await start_server(tool, [...OPTIONS, "--numerics", "exact-1"]);
    const other = await check_replicas([...replicas, fourth]);
    assert.equal(other.status, 1);
    assert.match(other.told, new RegExp(`^${fourth.url} differs from ${replicas[0].url} in: contract$`, "m"));

    const proxy = await start_proxy(kind, [replicas[0].port, replicas[1].port, fourth.port]);
    const load = start_load(proxy.url, expected, 3);
    await until_used(fourth);
    const { answers, wrong: differ, failed } = await load.end();
    assert.deepEqual(failed, []);
    assert.ok(differ.length > 0 && differ.length < answers, `${differ.length} of ${answers} answers differ`);
    await proxy.stop();
  });
}
