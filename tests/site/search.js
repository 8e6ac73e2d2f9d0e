// The site's own search, without a browser: node search.js WORKER INDEX QUERY ...; prints the pages that each query finds, as JSON.
const fs = require("fs"), vm = require("vm");
const [worker, file, ...queries] = process.argv.slice(2);
let listen, answered;
const scope = {console, addEventListener: (_, listener) => { listen = listener; }, postMessage: (message) => answered(message)};
scope.self = scope;
vm.runInNewContext(fs.readFileSync(worker, "utf-8"), scope);
const ask = (message) => new Promise((done) => { answered = done; listen({data: message}); });
(async () => {
    await ask({type: 0, data: {...JSON.parse(fs.readFileSync(file, "utf-8")), options: {}}});
    const found = {};
    for (const query of queries) {
        const {data} = await ask({type: 2, data: query});
        found[query] = data.items.map((sections) => sections[0].location.split("#")[0]);
    }
    console.log(JSON.stringify(found));
})();
