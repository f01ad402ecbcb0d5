-- Q21, suppliers who kept orders waiting: the only late one of an order with several suppliers.
select s_name, count(*) as numwait
from supplier
join lineitem as late on late.l_suppkey = s_suppkey
join orders on o_orderkey = late.l_orderkey
join nation on n_nationkey = s_nationkey
where o_orderstatus = 'F'
  and late.l_receiptdate > late.l_commitdate
  and n_name = 'SAUDI ARABIA'
  and exists (
    select 1
    from lineitem as other
    where other.l_orderkey = late.l_orderkey and other.l_suppkey <> late.l_suppkey
  )
  and not exists (
    select 1
    from lineitem as other_late
    where other_late.l_orderkey = late.l_orderkey
      and other_late.l_suppkey <> late.l_suppkey
      and other_late.l_receiptdate > other_late.l_commitdate
  )
group by s_name
order by numwait desc, s_name
limit 100
