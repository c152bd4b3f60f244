"""Load calls and settings into PostgreSQL. Needs `pip install dlt[postgres] requests`.

URL       address of Switchroom
BASE      address of its REST API, such as $URL/v1.2
KEY       key of `switchroom key add warehouse --scope read`
ACCOUNT   name of this installation, such as london: a column of each table, which many installations share
POSTGRES  address of the database, such as postgresql://loader@localhost/warehouse

Run it as often as you like: it loads what has changed since its last run, and removes merged and erased
calls.
"""

import os
import tempfile

import dlt
import requests

ACCOUNT = os.environ["ACCOUNT"]
SETTINGS = {  # Not loaded: PINs and passwords, which some records have.
    "users": ("id", "first_name", "last_name", "email", "ext", "active"),
    "queues": ("id", "name", "number"),
    "ringgroups": ("id", "name", "number"),
    "ddis": ("id", "e164", "name"),
}
LIMIT = 500
TIMES = ("started", "answered", "ended")
MERGE = {"disposition": "merge", "strategy": "delete-insert"}
REMOVED = {"is_removed": {"data_type": "bool", "hard_delete": True}}

session = requests.Session()
session.auth = tuple(os.environ["KEY"].split(":"))


def get(address, **parameters):
    response = session.get(address, params=parameters, timeout=60)
    response.raise_for_status()
    return response.json()


@dlt.resource(
    primary_key=("account", "id"),
    write_disposition=MERGE,
    columns={
        # Instants, and times of the office.
        **{f"{name}_at": {"data_type": "timestamp"} for name in TIMES},
        **{f"{name}_local": {"data_type": "timestamp", "timezone": False} for name in TIMES},
        "labels": {"data_type": "json"},
        # A call can be in two pages of a load. The later one counts.
        "change_order": {"data_type": "bigint", "dedup_sort": "desc"},
        **REMOVED,
    },
)
def calls():
    state, order = dlt.current.resource_state(), 0
    while True:
        try:
            page = get(f"{os.environ['URL']}/api/calls", changed_after=state.get("next", "0"), limit=LIMIT)
        except requests.HTTPError as error:
            if error.response.status_code != 410:
                raise
            # Switchroom was restored from a backup: load everything again.
            with dlt.current.pipeline().sql_client() as client:
                client.execute_sql("DELETE FROM calls WHERE account = %s", ACCOUNT)
            state["next"] = "0"
            continue
        for call in page["data"]:
            order += 1
            is_removed = "merged_into" in call or call["party"] == "erased"
            content = {"id": call["id"], "is_removed": True} if is_removed else call
            yield {"account": ACCOUNT, "change_order": order, **content}
        state["next"] = page["next"]
        if len(page["data"]) < LIMIT:
            return


def settings(collection, columns):
    @dlt.resource(name=collection, merge_key="account", write_disposition=MERGE, columns=REMOVED)
    def load():
        # Without any row, those of this account would stay.
        yield {"account": ACCOUNT, "id": None, "is_removed": True}
        page, count, total = 1, 0, 1
        while count < total:
            body = get(f"{os.environ['BASE']}/{collection}", limit=1000, page=page)
            yield [
                {"account": ACCOUNT, **{name: record.get(name) for name in columns}}
                for record in body["data"]
            ]
            page, count, total = page + 1, count + len(body["data"]), body["total"] if body["data"] else 0

    return load


dlt.config["runtime.dlthub_telemetry"] = False
# The cursor is stored in the database, with the rows. A folder that stays would keep copies of them, and with
# these the numbers that are erased later.
with tempfile.TemporaryDirectory() as folder:
    pipeline = dlt.pipeline(
        f"switchroom_{ACCOUNT}",
        destination=dlt.destinations.postgres(
            os.environ["POSTGRES"], staging_dataset_name_layout=f"%s_staging_{ACCOUNT}"
        ),
        dataset_name="phone",
        pipelines_dir=folder,
    )
    print(pipeline.run([calls, *(settings(*entry) for entry in SETTINGS.items())]))
