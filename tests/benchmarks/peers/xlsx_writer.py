"""XLSX of a query by XlsxWriter without formats: texts as texts, numbers as numbers.

`python -m tests.benchmarks.peers.xlsx_writer DATABASE OUT SQL`
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing

import xlsxwriter


def main(database: str, out: str, sql: str) -> None:
    book = xlsxwriter.Workbook(out, {"constant_memory": True})
    sheet = book.add_worksheet()
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        rows = connection.execute(sql)
        for column, description in enumerate(rows.description):
            sheet.write_string(0, column, description[0])
        for number, row in enumerate(rows, 1):
            for column, value in enumerate(row):
                if isinstance(value, str):
                    sheet.write_string(number, column, value)
                elif value is not None:
                    sheet.write_number(number, column, value)
    book.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
