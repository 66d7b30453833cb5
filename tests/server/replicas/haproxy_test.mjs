// Replicas behind HAProxy, which has no buffer that would keep streams back. Usage: node haproxy_test.mjs TOOL
import { test_proxy } from "./failover.mjs";
import { haproxy, require_program } from "./proxy.mjs";

require_program("haproxy");
test_proxy(haproxy, { wrong: ["balance leastconn", "balance leastbusy"] });
