// Replicas behind nginx. Usage: node nginx_test.mjs TOOL
import { test_proxy } from "./failover.mjs";
import { nginx, require_program } from "./proxy.mjs";

require_program("nginx");
test_proxy(nginx, {
  wrong: ["proxy_next_upstream_tries 2;", "proxy_next_upstream_tries some;"],
  buffered: [
    ["proxy_http_version 1.1;", "proxy_http_version 1.0;"],
    [
      "proxy_buffering off;",
      "proxy_buffering on; proxy_ignore_headers X-Accel-Buffering; proxy_buffer_size 512k; proxy_buffers 4 512k;",
    ],
  ],
});
